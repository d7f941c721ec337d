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

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::net::UnixListener;

    use vor_fixtures::even;

    use super::*;

    #[test]
    fn a_copy_is_made_until_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let listener = UnixListener::bind(&socket).unwrap();
        let bytes = even::make(3, 9, false).bytes;
        let sent = bytes.clone();
        let program = thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            client.write_all(&sent).unwrap();
            // Until the client leaves.
            let mut request = Vec::new();
            client.read_to_end(&mut request).unwrap();
            request
        });
        let watched = Watched::begin(Address::Unix(socket)).unwrap();
        let (path, is_over) = (watched.path().to_owned(), Arc::clone(&watched.is_over));
        while std::fs::metadata(&path).unwrap().len() < bytes.len() as u64 {
            thread::yield_now();
        }
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        assert!(
            watched
                .copies
                .as_ref()
                .is_some_and(|copies| !copies.is_finished())
        );
        drop(watched);
        assert!(is_over.load(Ordering::Relaxed));
        assert_eq!(Arc::strong_count(&is_over), 1);
        assert!(!path.exists());
        assert_eq!(program.join().unwrap(), b"vor 1 stream spans=all\n");
    }
}
