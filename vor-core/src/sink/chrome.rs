//! Chrome traces into a file.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use crate::Error;
use crate::export::chrome::ChromeExporter;

/// Creates a file and an exporter that writes a Chrome trace into it; an existing file is replaced.
///
/// # Errors
///
/// When the file cannot be created; the message names it.
pub fn create_chrome_trace(path: &Path) -> Result<ChromeExporter<BufWriter<File>>, Error> {
    let file = File::create(path).map_err(|error| {
        let doing = format!("cannot create the Chrome trace `{}`", path.display());
        Error::io(doing, error)
    })?;
    Ok(ChromeExporter::new(BufWriter::new(file)))
}
