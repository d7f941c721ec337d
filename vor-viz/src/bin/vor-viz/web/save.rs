//! The menu that exports what is selected, as a download. The bytes stay in the browser.

use egui::{Color32, Ui};
use js_sys::{Array, Uint8Array};
use vor_capture::{Error, units};
use vor_viz::export::{ExportFormat, export, export_time};
use vor_viz::replay::ReplayState;
use wasm_bindgen::prelude::Closure;
use wasm_bindgen::{Clamped, JsCast as _, JsValue};
use web_sys::{
    Blob, CanvasRenderingContext2d, Document, HtmlAnchorElement, HtmlCanvasElement, ImageData, Url,
    Window,
};

use crate::chart_picture;
use crate::export_menu::{self, Part, Saved, lost_note};

/// Time after which a download has begun, in milliseconds.
const BEGUN_MS: i32 = 60_000;

/// Shows the menu; returns the result of the chosen export.
pub(crate) fn menu(ui: &mut Ui, replay: &ReplayState) -> Option<Saved> {
    let part = Part::selected(replay)?;
    let hint = "Downloads the selected time, or the selected or pinned frames";
    let mut picture = None;
    let format = export_menu::menu(ui, replay, part, hint, |ui| {
        if ui.button(chart_picture::NAME).clicked() {
            let name = format!("{}.png", part.stem(replay));
            let (size, canvas) = chart_picture::draw(replay, ui.visuals().dark_mode);
            picture = Some(match png(size, canvas.pixels()) {
                Err(error) => Err(format!("{name} cannot be made: {error:?}")),
                Ok(bytes) => downloaded(&name, &bytes, 0),
            });
        }
    });
    let traced = format.map(|format| {
        let name = format!("{}.{}", part.stem(replay), format.extension());
        match exported(replay, part, format) {
            Err(error) => Err(format!("{name} cannot be made: {error}")),
            Ok((bytes, lost)) => downloaded(&name, &bytes, lost),
        }
    });
    traced.or(picture)
}

/// Downloads a file that lacks `lost` frames; returns what to tell.
fn downloaded(name: &str, bytes: &[u8], lost: u64) -> Saved {
    match download(name, bytes) {
        Err(error) => Err(format!("{name} cannot be downloaded: {error:?}")),
        Ok(()) => {
            let size = units::scaled(bytes.len() as f64, "B");
            Ok(format!("{name} is downloaded: {size}{}", lost_note(lost)))
        }
    }
}

/// Returns a file, and the number of frames that could not be read.
fn exported(
    replay: &ReplayState,
    part: Part,
    format: ExportFormat,
) -> Result<(Vec<u8>, u64), Error> {
    let mut bytes = Vec::new();
    let lost = match part {
        Part::Frames(first, last) => {
            export(replay.store(), (first, last), format, &mut bytes)?;
            0
        }
        Part::Time(begin_ns, end_ns) => {
            let mut capture = replay.source().open()?;
            export_time(&mut capture, (begin_ns, end_ns), format, &mut bytes)?
        }
    };
    Ok((bytes, lost))
}

fn window() -> Result<(Window, Document), JsValue> {
    let window = web_sys::window().ok_or("the page has no window")?;
    let document = window.document().ok_or("the page has no document")?;
    Ok((window, document))
}

/// Encodes an opaque picture as PNG, by the browser's own encoder. The size is the width and the
/// height in pixels.
fn png((width, height): (u32, u32), pixels: &[Color32]) -> Result<Vec<u8>, JsValue> {
    let (window, document) = window()?;
    let canvas: HtmlCanvasElement = document.create_element("canvas")?.unchecked_into();
    canvas.set_width(width);
    canvas.set_height(height);
    let rgba: Vec<u8> = pixels.iter().flat_map(|pixel| pixel.to_array()).collect();
    let image = ImageData::new_with_u8_clamped_array(Clamped(&rgba), width)?;
    let context = canvas.get_context("2d")?.ok_or("it cannot be drawn")?;
    let context: CanvasRenderingContext2d = context.unchecked_into();
    context.put_image_data(&image, 0.0, 0.0)?;
    let address = canvas.to_data_url()?;
    let (_, base64) = address.split_once(',').ok_or("it cannot be encoded")?;
    // A character of the answer is a byte.
    Ok(window
        .atob(base64)?
        .chars()
        .map(|byte| byte as u8)
        .collect())
}

/// Clicks a link to the bytes.
fn download(name: &str, bytes: &[u8]) -> Result<(), JsValue> {
    let (window, document) = window()?;
    let parts = Array::of1(&Uint8Array::from(bytes));
    let url = Url::create_object_url_with_blob(&Blob::new_with_u8_array_sequence(&parts)?)?;
    let link: HtmlAnchorElement = document.create_element("a")?.unchecked_into();
    link.set_href(&url);
    link.set_download(name);
    link.click();
    // The browser keeps the bytes as long as their address is valid.
    let revoke = Closure::once_into_js(move || Url::revoke_object_url(&url));
    let revoke = revoke.unchecked_ref();
    window.set_timeout_with_callback_and_timeout_and_arguments_0(revoke, BEGUN_MS)?;
    Ok(())
}
