//! Programs that listen, and what their clients received.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use vor_capture::reader::{Damage, Event, Reader};
use vor_recorder::setup::Config;
use vor_recorder::sinks::live::{Address, Choice, Connection, Question, Token, connect};

/// The longest wait of a test.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Listens at a socket in a folder of this test.
pub fn listen(folder: &Path) -> PathBuf {
    listen_with(folder, Config::new())
}

pub fn listen_with(folder: &Path, config: Config) -> PathBuf {
    let path = folder.join("s");
    let address = format!("unix:{}", path.display());
    config.listen(address.parse().unwrap()).enable();
    assert_eq!(vor_recorder::sinks::live::listening(), Some(address));
    path
}

pub fn client(socket: &Path, choice: Choice) -> Connection {
    client_at(&format!("unix:{}", socket.display()), choice, None).unwrap()
}

pub fn client_at(
    address: &str,
    choice: Choice,
    token: Option<&Token>,
) -> Result<Connection, vor_capture::Error> {
    connect(&Address::of_program(address).unwrap(), choice, token)
}

/// Sends bytes to a socket, and returns what comes back until the program closes the connection.
pub fn raw(socket: &Path, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

pub fn ask(socket: &Path, question: &Question) -> Result<String, String> {
    let address = Address::Unix(socket.to_owned());
    vor_recorder::sinks::live::ask(&address, question, None).map_err(|error| error.to_string())
}

/// Waits until something holds.
pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LIMIT, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the lines of the status that begin with `name`.
pub fn status_lines(socket: &Path, name: &str) -> Vec<String> {
    let status = ask(socket, &Question::Status).unwrap();
    let lines = status.lines().filter_map(|line| line.strip_prefix(name));
    lines
        .map(|line| line.trim_start_matches(": ").to_owned())
        .collect()
}

pub fn clients(socket: &Path) -> usize {
    status_lines(socket, "client").len()
}

/// The contents of a capture, for comparisons: spans as (thread, site, start, duration) with names.
#[derive(Debug, Default, PartialEq)]
pub struct Contents {
    pub spans: BTreeMap<(String, String, u64, u64), u32>,
    /// Spans and dropped spans of each frame of the main set, by its number.
    pub frames: BTreeMap<u64, (u64, u64)>,
    pub dropped: u64,
    pub merged_marks: u64,
    pub losses: Vec<String>,
    pub is_closed: bool,
}

pub fn read(bytes: &[u8]) -> Contents {
    let mut reader = Reader::new(bytes).unwrap();
    let mut contents = Contents::default();
    while let Some(event) = reader.next_event().unwrap() {
        match event {
            Event::Batch(batch) => {
                for share in &batch.threads {
                    contents.dropped += share.dropped_spans;
                    let catalog = &batch.catalog;
                    let thread = catalog.threads[share.thread.0 as usize].as_ref().unwrap();
                    for at in 0..share.len() {
                        let key = (
                            thread.name.to_string(),
                            catalog.site_name(share.sites[at]).to_owned(),
                            share.start_ticks[at],
                            share.duration_ticks[at],
                        );
                        *contents.spans.entry(key).or_default() += 1;
                    }
                }
            }
            Event::Frame(recovered) => {
                assert_eq!(recovered.lost_records, 0);
                let frame = &recovered.frame;
                if frame.frame_set == 0 {
                    let counts = (frame.span_count, frame.dropped_spans);
                    assert_eq!(contents.frames.insert(frame.index, counts), None);
                    contents.merged_marks += frame.merged_marks;
                }
            }
            Event::Loss(loss) => contents.losses.push(loss.reason),
            _ => {}
        }
    }
    let damage: &Damage = reader.damage();
    contents
        .losses
        .extend(damage.losses.iter().map(|loss| loss.reason.clone()));
    contents.is_closed = damage.tail.is_none();
    contents
}

impl Contents {
    pub fn span_count(&self) -> u64 {
        self.spans.values().map(|count| u64::from(*count)).sum()
    }
}
