//! Fonts of the system for letters that egui's fonts lack, such as Chinese, Japanese and Korean.
//!
//! After each pass, the texts that it drew are searched for letters that would be boxes. A thread
//! looks for the font of the system that has most of them, and egui takes it as its last choice.
//! Reading a large font costs time and memory, so nothing is read before it is needed.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use egui::epaint::text::{FontInsert, FontPriority, InsertFontFamily};
use egui::{Context, FontData, FontFamily, FontId, Shape};
use fontdb::Database;
use skrifa::{FontRef, MetadataProvider};

/// Letters below this are in egui's fonts: Latin ones with their accents.
const FIRST_RARE: char = '\u{250}';

/// The bytes of a font file, and the number of the font in it.
type FontFile = (Vec<u8>, u32);

/// The letters that were missing so far.
#[derive(Debug, Default)]
pub(crate) struct Glyphs {
    /// Letters that need no search: there is a glyph, or a search for one has ended.
    known: BTreeSet<char>,
    search: Option<Search>,
}

#[derive(Debug)]
struct Search {
    wanted: BTreeSet<char>,
    found: Receiver<Option<FontFile>>,
}

impl Glyphs {
    /// Returns whether no search is running.
    pub(crate) fn is_idle(&self) -> bool {
        self.search.is_none()
    }

    /// Looks for letters without a glyph in what this pass drew, and adds a font that has them.
    pub(crate) fn update(&mut self, ctx: &Context) {
        if self.search.is_some() {
            // A font that was found is there from the next pass on.
            return self.take_result(ctx);
        }
        let drawn = letters(ctx);
        let wanted: BTreeSet<char> = drawn.difference(&self.known).copied().collect();
        if wanted.is_empty() {
            return;
        }
        let font = FontId::default();
        let is_missing = |letter: &char| !ctx.fonts_mut(|fonts| fonts.has_glyph(&font, *letter));
        let (missing, there): (BTreeSet<char>, BTreeSet<char>) =
            wanted.into_iter().partition(is_missing);
        self.known.extend(there);
        if !missing.is_empty() {
            self.search_for(missing, ctx);
        }
    }

    fn search_for(&mut self, wanted: BTreeSet<char>, ctx: &Context) {
        let (sender, found) = channel();
        let (letters, ctx) = (wanted.clone(), ctx.clone());
        let search = move || {
            let mut system = Database::new();
            system.load_system_fonts();
            // Nobody waits for the answer after the viewer has closed.
            _ = sender.send(font_with(&system, &letters));
            ctx.request_repaint();
        };
        let thread = std::thread::Builder::new().name("fonts".to_owned());
        match thread.spawn(search) {
            Ok(_) => self.search = Some(Search { wanted, found }),
            Err(_) => self.known.extend(wanted),
        }
    }

    fn take_result(&mut self, ctx: &Context) {
        let Some(search) = &self.search else { return };
        let found = match search.found.try_recv() {
            Err(TryRecvError::Empty) => return,
            Err(TryRecvError::Disconnected) => None,
            Ok(found) => found,
        };
        // Letters of another font are missing again after this one has been added.
        match (found, self.search.take()) {
            (Some((bytes, index)), Some(search)) => {
                let first = search.wanted.first().map_or(0, |letter| *letter as u32);
                ctx.add_font(insert(
                    format!("system font for U+{first:04X}"),
                    bytes,
                    index,
                ));
            }
            (None, Some(search)) => self.known.extend(search.wanted),
            (_, None) => {}
        }
    }
}

/// Returns a font as egui's last choice.
fn insert(name: String, bytes: Vec<u8>, index: u32) -> FontInsert {
    let mut data = FontData::from_owned(bytes);
    data.index = index;
    let last = |family| InsertFontFamily {
        family,
        priority: FontPriority::Lowest,
    };
    let families = vec![last(FontFamily::Proportional), last(FontFamily::Monospace)];
    FontInsert::new(&name, data, families)
}

/// Returns the font that has most of some letters; `None` if none has any.
fn font_with(system: &Database, letters: &BTreeSet<char>) -> Option<FontFile> {
    let mut best = None;
    for face in system.faces() {
        let plain = face.style == fontdb::Style::Normal && face.weight == fontdb::Weight::NORMAL;
        let has = system.with_face_data(face.id, |bytes, index| count(bytes, index, letters));
        let rank = (has.unwrap_or(0), plain);
        if rank.0 > 0 && best.is_none_or(|(before, _)| before < rank) {
            best = Some((rank, face.id));
        }
    }
    let (_, id) = best?;
    system.with_face_data(id, |bytes, index| (bytes.to_vec(), index))
}

/// Returns how many of some letters a font has.
fn count(bytes: &[u8], index: u32, letters: &BTreeSet<char>) -> usize {
    let Ok(font) = FontRef::from_index(bytes, index) else {
        return 0;
    };
    let glyphs = font.charmap();
    let has = |letter: &&char| glyphs.map(**letter).is_some();
    letters.iter().filter(has).count()
}

/// Returns the letters of the texts of this pass that not every font has.
fn letters(ctx: &Context) -> BTreeSet<char> {
    let layers: Vec<_> = ctx.memory(|memory| memory.layer_ids().collect());
    let mut found = BTreeSet::new();
    ctx.graphics(|graphics| {
        for layer in layers.iter().filter_map(|layer| graphics.get(*layer)) {
            layer
                .all_entries()
                .for_each(|entry| add_letters(&entry.shape, &mut found));
        }
    });
    found
}

fn add_letters(shape: &Shape, found: &mut BTreeSet<char>) {
    match shape {
        Shape::Text(text) => {
            let is_rare = |letter: &char| *letter >= FIRST_RARE;
            found.extend(text.galley.text().chars().filter(is_rare));
        }
        Shape::Vec(shapes) => shapes.iter().for_each(|shape| add_letters(shape, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use egui::{CentralPanel, FontDefinitions, RawInput};

    use super::*;

    /// The fonts that egui brings, as if they were the system's.
    fn system() -> Database {
        let mut system = Database::new();
        let fonts = FontDefinitions::default();
        for data in fonts.font_data.values() {
            system.load_font_data((*data.font).as_ref().to_vec());
        }
        system
    }

    /// Letters that only one of these fonts has.
    fn only_in_hack() -> BTreeSet<char> {
        let fonts = FontDefinitions::default().font_data;
        let has = |font: &str, letter: char| {
            count((*fonts[font].font).as_ref(), 0, &BTreeSet::from([letter])) > 0
        };
        let found = ('\u{2500}'..'\u{2900}').filter(|&letter| {
            has("Hack", letter) && !has("Ubuntu-Light", letter) && !has("egui-icons", letter)
        });
        let found: BTreeSet<char> = found.take(3).collect();
        assert_eq!(found.len(), 3);
        found
    }

    #[test]
    fn the_font_with_most_letters_is_found() {
        let fonts = FontDefinitions::default().font_data;
        let mut wanted = only_in_hack();
        wanted.insert('中');
        let (bytes, index) = font_with(&system(), &wanted).unwrap();
        assert_eq!(
            (bytes.as_slice(), index),
            ((*fonts["Hack"].font).as_ref(), 0)
        );
        assert_eq!(font_with(&system(), &BTreeSet::from(['中'])), None);
        assert_eq!(font_with(&Database::new(), &wanted), None);
    }

    /// A program with one font.
    fn with_one_font() -> Context {
        let ctx = Context::default();
        let mut fonts = FontDefinitions::default();
        for family in fonts.families.values_mut() {
            *family = vec!["Ubuntu-Light".to_owned()];
        }
        ctx.set_fonts(fonts);
        ctx
    }

    #[test]
    fn a_letter_without_a_glyph_gets_a_font() {
        let ctx = with_one_font();
        let mut glyphs = Glyphs::default();
        let pass = |glyphs: &mut Glyphs, text: &str| {
            let mut output = ctx.run_ui(RawInput::default(), |ui| {
                CentralPanel::default().show(ui, |ui| ui.label(text));
                glyphs.update(ui.ctx());
            });
            output.textures_delta.clear();
        };
        pass(&mut glyphs, "plain, and µs");
        assert!(glyphs.is_idle());
        assert_eq!(letters(&ctx), BTreeSet::new());
        // The system may have any fonts, so the answer is given here.
        let (wanted, (sender, found)) = (only_in_hack(), channel());
        let text: String = wanted.iter().collect();
        glyphs.search = Some(Search {
            wanted: wanted.clone(),
            found,
        });
        pass(&mut glyphs, &text);
        assert!(!glyphs.is_idle());
        let font = FontId::default();
        assert!(ctx.fonts_mut(|fonts| !fonts.has_glyphs(&font, &text)));
        sender.send(font_with(&system(), &wanted)).unwrap();
        pass(&mut glyphs, &text);
        pass(&mut glyphs, &text);
        assert!(ctx.fonts_mut(|fonts| fonts.has_glyphs(&font, &text)));
        assert!(glyphs.is_idle() && glyphs.known.is_superset(&wanted));
        // A letter that no font has is searched for once.
        let (sender, found) = channel();
        let wanted = BTreeSet::from(['中']);
        glyphs.search = Some(Search { wanted, found });
        sender.send(None).unwrap();
        pass(&mut glyphs, "中");
        pass(&mut glyphs, "中");
        assert!(glyphs.is_idle());
    }
}
