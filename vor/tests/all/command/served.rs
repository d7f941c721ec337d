//! A program that listens, played by a thread of the test: it sends what the test says, when the
//! test says so.

use std::io::{BufRead, BufReader, Read};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use tempfile::TempDir;

/// How long the program waits for its client, which never takes so long.
const BOUND: Duration = Duration::from_secs(60);

/// A program with one client.
pub struct Served {
    folder: TempDir,
    /// Where it listens, as `vor tail` takes it.
    pub address: String,
    worker: JoinHandle<String>,
}

impl Served {
    /// Starts a program that answers its first client. Behind `answer`, the connection is closed.
    pub fn start(answer: impl FnOnce(&mut UnixStream) + Send + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let worker = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            client.set_read_timeout(Some(BOUND)).unwrap();
            let mut request = String::new();
            BufReader::new(&mut client).read_line(&mut request).unwrap();
            answer(&mut client);
            // The client may be gone.
            let _ = client.shutdown(Shutdown::Both);
            request
        });
        Self {
            folder,
            address: format!("unix:{}", path.display()),
            worker,
        }
    }

    /// Returns a folder that lasts as long as the program.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Waits for the end of the program, and returns the client's request.
    pub fn request(self) -> String {
        self.worker.join().unwrap()
    }
}

/// Waits until a client asks for the end of the capture.
pub fn wait_for_the_end(client: &mut UnixStream) {
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
}

/// Returns whether a client asks for the end of the capture soon.
pub fn is_asked_to_end(client: &mut UnixStream) -> bool {
    let soon = Duration::from_millis(500);
    client.set_read_timeout(Some(soon)).unwrap();
    let read = client.read(&mut [0]);
    client.set_read_timeout(Some(BOUND)).unwrap();
    matches!(read, Ok(0))
}
