//! Files of shared memory with damage: the recovery returns something readable or an error.

use std::path::{Path, PathBuf};

use vor_capture::reader::Reader;
use vor_fixtures::process::{child, role, run};
use vor_fixtures::random::{Random, seeds};
use vor_fixtures::test_name;
use vor_recorder::drain::recovery::Remains;
use vor_recorder::profile_scope;
use vor_recorder::setup::Config;

use crate::killed::shared_file;

/// The variable that names the folder of a child.
const FOLDER: &str = "VOR_SHARED_MEMORY_IN";

/// Some bytes of the file's header.
const HEADER_PLACES: usize = 8;

/// Records on some threads, and ends as a crash does.
fn crash(folder: &Path) {
    Config::new()
        .shared_memory_in(folder)
        .ring_kib(256)
        .enable();
    let threads: Vec<_> = (0..3)
        .map(|_| std::thread::spawn(|| (0..300_u64).for_each(record)))
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    profile_scope!("open");
    std::process::abort();
}

fn record(number: u64) {
    profile_scope!("numbered", number = number, text = "a text");
    profile_scope!("inner");
}

/// Recovers a file, and reads the result to its end. Returns the number of spans.
fn recover(path: &Path) -> Result<u64, vor_capture::Error> {
    let mut bytes = Vec::new();
    let recovered = Remains::open(path)?.write(None, &mut bytes)?;
    let mut reader = Reader::new(std::io::Cursor::new(bytes))?;
    while reader.next_event()?.is_some() {}
    Ok(recovered.spans)
}

#[test]
fn damage_gives_an_error_or_a_readable_capture() {
    if role().is_some() {
        return crash(&PathBuf::from(std::env::var_os(FOLDER).unwrap()));
    }
    let folder = tempfile::tempdir().unwrap();
    let test = test_name!("damage_gives_an_error_or_a_readable_capture");
    let output = run(child(test, "crash").env(FOLDER, folder.path()));
    assert!(!output.status.success());
    let whole = std::fs::read(shared_file(folder.path())).unwrap();
    let path = folder.path().join("damaged");
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(recover(&path).unwrap(), 3 * 300 * 2);

    // The places that hold something, since most of the file is empty.
    let used: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] != 0).collect();
    let (mut refused, mut fewer) = (0, 0);
    for seed in seeds(800) {
        let mut random = Random(seed);
        let mut bytes = whole.clone();
        for _ in 0..=random.below(4) {
            // The file's header is small, and damage to it is refused.
            let places = if random.below(8) == 0 {
                HEADER_PLACES
            } else {
                used.len()
            };
            let at = used[random.below(places)];
            match random.below(3) {
                0 => bytes[at] = random.next() as u8,
                1 => {
                    let word = at / 8 * 8;
                    let value = [u64::MAX, 0, random.next(), 1 << random.below(64)];
                    let value = value[random.below(value.len())];
                    bytes[word..word + 8].copy_from_slice(&value.to_ne_bytes());
                }
                _ if random.below(8) == 0 => bytes.truncate(at),
                _ => bytes[at] ^= 1 << random.below(8),
            }
            if bytes.len() < whole.len() {
                break;
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        match recover(&path) {
            Ok(spans) => fewer += u64::from(spans < 3 * 300 * 2),
            Err(error) => {
                refused += 1;
                assert_eq!(error.to_string().lines().count(), 1, "{seed}: {error}");
            }
        }
    }
    println!("{refused} refused, {fewer} with fewer spans");
    assert!(
        refused > 0 && fewer > 0,
        "the damage matters: {refused} {fewer}"
    );
}

#[test]
fn what_is_no_such_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in [("empty", Vec::new()), ("text", b"text".repeat(5000))] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let error = Remains::open(&path).unwrap_err().to_string();
        assert!(error.contains("no file of shared memory"), "{error}");
    }
    assert!(Remains::open(folder.path()).is_err());
}
