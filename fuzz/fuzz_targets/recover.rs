//! A file of shared memory with damage: the recovery returns an error or a readable capture.
//!
//! The file is one that this process has recorded, because no mutation finds a whole one. An input
//! is a list of changes: a place of 4 bytes and a word of 8, which replaces what is there. Half of
//! the places are those that hold something, and the highest one cuts the file off.
#![no_main]

use std::fs::File;
use std::io::{Cursor, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use vor_recorder::drain::recovery::Remains;
use vor_recorder::profile_scope;
use vor_recorder::setup::Config;

/// Most changes of an input.
const MAX_CHANGES: usize = 64;

/// A recorded file, and one that is changed and restored by each input.
struct Recorded {
    whole: Vec<u8>,
    /// The words that hold something.
    used: Vec<u64>,
    path: PathBuf,
}

static RECORDED: LazyLock<Recorded> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap().keep();
    Config::new()
        .shared_memory_in(&folder)
        .ring_kib(64)
        .enable();
    let record = || {
        for number in 0..50_u64 {
            profile_scope!("numbered", number = number, text = "a text");
            profile_scope!("inner");
        }
    };
    std::thread::spawn(record).join().unwrap();
    record();
    profile_scope!("open");
    let shared = folder.join(format!("vor-{}.shm", std::process::id()));
    let whole = std::fs::read(shared).unwrap();
    vor_recorder::setup::disable();
    let words = whole.chunks(8).zip(0..);
    let used = words.filter(|(word, _)| word.iter().any(|byte| *byte != 0));
    let used = used.map(|(_, at)| 8 * at).collect();
    let path = folder.join("changed");
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(recover(&path).unwrap(), 200, "the file is whole");
    Recorded { whole, used, path }
});

/// Recovers a file, and reads the result to its end. Returns the number of spans.
fn recover(path: &Path) -> Result<u64, vor_capture::Error> {
    let mut bytes = Vec::new();
    let recovered = Remains::open(path)?.write(None, &mut bytes)?;
    let mut reader = vor_capture::reader::Reader::new(Cursor::new(bytes)).unwrap();
    while reader.next_event().unwrap().is_some() {}
    assert!(reader.damage().is_none(), "{:?}", reader.damage());
    Ok(recovered.spans)
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Recorded { whole, used, path } = &*RECORDED;
    let length = whole.len() as u64;
    let mut file = File::options().write(true).open(path).unwrap();
    let mut write = |at: u64, bytes: &[u8]| {
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(bytes).unwrap();
    };
    let (mut changed, mut end) = (Vec::new(), length);
    let mut input = bytes;
    let (mut place, mut word) = ([0; 4], [0; 8]);
    while changed.len() < MAX_CHANGES
        && input.read_exact(&mut place).is_ok()
        && input.read_exact(&mut word).is_ok()
    {
        let at = match u32::from_le_bytes(place) {
            u32::MAX => {
                end = u64::from_le_bytes(word) % length;
                continue;
            }
            place if place % 2 == 0 => used[place as usize / 2 % used.len()],
            place => u64::from(place / 2) % (length - 8),
        };
        write(at, &word);
        changed.push(at as usize);
    }
    let cut = File::options().write(true).open(path).unwrap();
    cut.set_len(end).unwrap();
    if let Err(error) = recover(path) {
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
    }
    cut.set_len(length).unwrap();
    for at in changed {
        write(at as u64, &whole[at..at + 8]);
    }
    if end < length {
        write(end, &whole[end as usize..]);
    }
});
