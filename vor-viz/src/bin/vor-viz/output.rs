//! Output files that are either complete or absent.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use egui::Color32;

/// Encodes an opaque picture as PNG. The size is the width and the height in pixels.
pub(crate) fn encode(
    file: &File,
    (width, height): (u32, u32),
    pixels: &[Color32],
) -> io::Result<()> {
    let channels = |pixel: &Color32| [pixel.r(), pixel.g(), pixel.b()];
    let rgb: Vec<u8> = pixels.iter().flat_map(channels).collect();
    let mut out = BufWriter::new(file);
    let mut encoder = png::Encoder::new(&mut out, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&rgb)?;
    writer.finish()?;
    out.flush()
}

/// Writes a temporary file beside `path`, and renames it to `path` when it is complete.
pub(crate) fn write_whole(
    path: &Path,
    write: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let mut name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it does not name a file"))?
        .to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&temporary)?;
    let written = write(&file).and_then(|()| file.sync_all());
    drop(file);
    let moved = written.and_then(|()| fs::rename(&temporary, path));
    if moved.is_err() {
        // The temporary file may already be gone.
        drop(fs::remove_file(&temporary));
    }
    moved
}
