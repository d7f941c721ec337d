//! A running program, whose stream the viewer follows in a file.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use tempfile::TempDir;
use vor_recorder::sinks::live::{Address, Choice};

use crate::command::failure::{Failure, warn};
use crate::command::live;

/// A running program whose stream goes into a temporary file.
#[derive(Debug)]
pub(super) struct Watched {
    path: PathBuf,
    is_over: Arc<AtomicBool>,
    copies: Option<JoinHandle<()>>,
    _folder: TempDir,
}

impl Watched {
    pub(super) fn begin(address: Address) -> Result<Self, Failure> {
        let mut stream = live::open(&address, Choice::All)?;
        let no_file = |error| Failure::Message(format!("a temporary file: {error}"));
        let folder = tempfile::tempdir().map_err(no_file)?;
        let path = folder.path().join("live.vor");
        let mut file = File::create(&path).map_err(no_file)?;
        // The viewer needs the header at least.
        copy_some(&mut stream, &mut file).map_err(no_file)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let copies = thread::spawn(move || {
            while !stream.has_ended && !ends.load(Ordering::Relaxed) {
                if let Err(error) = copy_some(&mut stream, &mut file) {
                    warn(&format!(
                        "{address}: {error}; the viewer has what came before"
                    ));
                    return;
                }
            }
        });
        Ok(Self {
            path,
            is_over,
            copies: Some(copies),
            _folder: folder,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(copies) = self.copies.take() {
            // It has reported its failure itself.
            let _ = copies.join();
        }
    }
}

/// Copies what is there.
fn copy_some(stream: &mut impl Read, file: &mut impl Write) -> io::Result<()> {
    let mut chunk = [0; 64 << 10];
    let read = stream.read(&mut chunk)?;
    file.write_all(&chunk[..read])
}
