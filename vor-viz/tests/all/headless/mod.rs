//! egui without a window and without a GPU, and a user who makes random inputs.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use egui::epaint::{ClippedShape, ImageDelta, TextureId};
use egui::{
    Context, Event, Key, Modifiers, MouseWheelSource, MouseWheelUnit, PointerButton, Pos2,
    RawInput, Rect, Shape, TouchPhase, Ui, Vec2, ViewportId, ViewportInfo, pos2, vec2,
};

use vor_fixtures::random::Random;

/// Maximum time of a pass. Unoptimised on a busy machine, a pass takes some milliseconds; one that
/// reaches this limit hangs.
const MAX_PASS_TIME: Duration = Duration::from_secs(20);

/// The output of a pass.
pub struct PassOutput {
    pub shapes: Vec<ClippedShape>,
    /// Textures, or parts of them, sent to the GPU.
    pub textures: Vec<(TextureId, ImageDelta)>,
}

/// A screen and its user.
pub struct User {
    pub ctx: Context,
    /// The longest side of a texture that the GPU takes.
    pub max_texture_side: usize,
    /// The sizes of the textures that it has.
    pub texture_sizes: BTreeMap<TextureId, [usize; 2]>,
    size: Vec2,
    pixels_per_point: f32,
    time: f64,
    random: Random,
    pointer: Pos2,
}

impl User {
    /// Makes a user with a screen of some size in points.
    pub fn new(seed: u64, size: Vec2, pixels_per_point: f32, dark: bool) -> Self {
        let ctx = Context::default();
        ctx.set_theme(if dark {
            egui::Theme::Dark
        } else {
            egui::Theme::Light
        });
        Self {
            ctx,
            max_texture_side: 8192,
            texture_sizes: BTreeMap::new(),
            size,
            pixels_per_point,
            time: 0.0,
            random: Random(seed),
            pointer: Pos2::ZERO,
        }
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.random.below(end)
    }

    /// Returns a number from `from` to `to`.
    pub fn within(&mut self, from: f32, to: f32) -> f32 {
        from + (to - from) * self.below(10_001) as f32 / 10_000.0
    }

    /// Runs a pass without an event.
    pub fn idle_pass(&mut self, show: impl FnMut(&mut Ui)) -> PassOutput {
        self.pass(Modifiers::NONE, Vec::new(), show)
    }

    /// Presses and releases a key.
    pub fn press(&mut self, key: Key, show: impl FnMut(&mut Ui)) -> PassOutput {
        self.pass(Modifiers::NONE, vec![pressed(key, Modifiers::NONE)], show)
    }

    /// Moves the pointer to `place`.
    pub fn move_pointer(&mut self, place: Vec2, show: impl FnMut(&mut Ui)) -> PassOutput {
        self.pointer = place.to_pos2();
        self.pass(
            Modifiers::NONE,
            vec![Event::PointerMoved(self.pointer)],
            show,
        )
    }

    /// Runs a pass and tessellates its output; every vertex must have finite coordinates.
    pub fn pass(
        &mut self,
        modifiers: Modifiers,
        events: Vec<Event>,
        show: impl FnMut(&mut Ui),
    ) -> PassOutput {
        self.time += 1.0 / 20.0;
        let viewport = ViewportInfo {
            native_pixels_per_point: Some(self.pixels_per_point),
            ..ViewportInfo::default()
        };
        let input = RawInput {
            screen_rect: Some(Rect::from_min_size(Pos2::ZERO, self.size)),
            time: Some(self.time),
            max_texture_side: Some(self.max_texture_side),
            viewports: [(ViewportId::ROOT, viewport)].into_iter().collect(),
            events: [vec![Event::ModifiersChanged(modifiers)], events].concat(),
            focused: true,
            ..RawInput::default()
        };
        let began = Instant::now();
        let mut output = self.ctx.run_ui(input, show);
        let primitives = self
            .ctx
            .tessellate(output.shapes.clone(), output.pixels_per_point);
        let took = began.elapsed();
        assert!(took < MAX_PASS_TIME, "a pass took {took:?}");
        for primitive in &primitives {
            if let egui::epaint::Primitive::Mesh(mesh) = &primitive.primitive {
                let is_somewhere = |vertex: &egui::epaint::Vertex| vertex.pos.is_finite();
                assert!(
                    mesh.vertices.iter().all(is_somewhere),
                    "a vertex is not finite"
                );
            }
        }
        let textures = output.textures_delta.set.drain();
        let textures =
            textures.flat_map(|(id, deltas)| deltas.into_iter().map(move |delta| (id, delta)));
        let textures = textures.collect();
        output.textures_delta.clear();
        PassOutput {
            shapes: std::mem::take(&mut output.shapes),
            textures,
        }
    }

    /// Makes a random input at a random place.
    pub fn random_pass(&mut self, show: impl FnMut(&mut Ui)) -> PassOutput {
        let modifiers = match self.below(6) {
            0 => Modifiers::SHIFT,
            1 => Modifiers::COMMAND,
            _ => Modifiers::NONE,
        };
        let mut events = Vec::new();
        for _ in 0..1 + self.below(3) {
            self.choose(modifiers, &mut events);
        }
        self.pass(modifiers, events, show)
    }

    fn choose(&mut self, modifiers: Modifiers, events: &mut Vec<Event>) {
        let (width, height) = (self.size.x, self.size.y);
        let button = [
            PointerButton::Primary,
            PointerButton::Secondary,
            PointerButton::Middle,
        ][[0, 0, 0, 1, 2][self.below(5)]];
        match self.below(12) {
            0..=2 => {
                self.pointer = pos2(
                    self.within(-5.0, width + 5.0),
                    self.within(-5.0, height + 5.0),
                );
                events.push(Event::PointerMoved(self.pointer));
            }
            3..=5 => {
                let pos = self.pointer;
                let event = |pressed| Event::PointerButton {
                    pos,
                    button,
                    pressed,
                    modifiers,
                };
                match self.below(3) {
                    0 => events.extend([event(true), event(false)]),
                    1 => events.push(event(true)),
                    _ => events.push(event(false)),
                }
            }
            6 => {
                let delta = vec2(self.within(-300.0, 300.0), self.within(-2000.0, 2000.0));
                events.push(Event::MouseWheel {
                    unit: MouseWheelUnit::Point,
                    delta,
                    phase: TouchPhase::Move,
                    source: MouseWheelSource::Unknown,
                    modifiers,
                });
            }
            7 => events.push(Event::Zoom(self.within(0.05, 3.0))),
            8 => events.push(Event::PointerGone),
            9 if self.below(4) == 0 => events.push(Event::Text("un\u{202e}é🦀".into())),
            _ => {
                let key = KEYS[self.below(KEYS.len())];
                events.push(pressed(key, modifiers));
            }
        }
    }
}

/// Keys of the panel.
const KEYS: [Key; 33] = [
    Key::Space,
    Key::ArrowLeft,
    Key::ArrowRight,
    Key::ArrowUp,
    Key::ArrowDown,
    Key::Comma,
    Key::Period,
    Key::Home,
    Key::End,
    Key::M,
    Key::W,
    Key::S,
    Key::A,
    Key::D,
    Key::Z,
    Key::Enter,
    Key::R,
    Key::Num0,
    Key::F,
    Key::Slash,
    Key::N,
    Key::C,
    Key::E,
    Key::L,
    Key::Num1,
    Key::Num2,
    Key::Num3,
    Key::Questionmark,
    Key::Escape,
    Key::Tab,
    Key::PageUp,
    Key::PageDown,
    Key::Backspace,
];

fn pressed(key: Key, modifiers: Modifiers) -> Event {
    Event::Key {
        key,
        physical_key: None,
        pressed: true,
        repeat: false,
        modifiers,
    }
}

impl PassOutput {
    /// Returns all texts of the pass.
    pub fn texts(&self) -> Vec<String> {
        fn collect(shape: &Shape, into: &mut Vec<String>) {
            match shape {
                Shape::Text(text) => into.push(text.galley.text().to_owned()),
                Shape::Vec(shapes) => shapes.iter().for_each(|shape| collect(shape, into)),
                _ => {}
            }
        }
        let mut texts = Vec::new();
        for clipped in &self.shapes {
            collect(&clipped.shape, &mut texts);
        }
        texts
    }
}
