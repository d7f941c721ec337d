//! The measured work: a pipeline from a folder to an archive.
//!
//! ```text
//! walker ──paths──▶ readers ──blocks──▶ compressors ──packed──▶ writer
//! ```
//!
//! Each arrow is a bounded queue, so a slow stage delays the stages before it, and memory use does
//! not depend on the folder. The writer ends a frame every [`BATCH_BLOCKS`] blocks. Counters and
//! metrics of all stages in between belong to that frame.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::archive::{Block, Writer};

/// Bytes of a file that are compressed together.
const BLOCK_BYTES: usize = 64 << 10;
/// Blocks per frame.
const BATCH_BLOCKS: u64 = 16;
/// Capacity of each queue.
const QUEUE: usize = 16;
const READERS: usize = 2;

static FILES: vor::Counter = vor::Counter::new("files", "");
static COMPRESS_TIME: vor::Histogram = vor::Histogram::new("compress_time", "us");

/// The totals of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Files that are in the archive.
    pub files: u64,
    /// Files and folders that could not be read; stderr names each.
    pub unreadable: u64,
    /// Frames, one per batch of blocks.
    pub frames: u64,
    /// Bytes before compression.
    pub raw_bytes: u64,
    /// Bytes of the archive's blocks.
    pub packed_bytes: u64,
}

/// Packs `folder` into an archive at `archive`, without the files in `excluded` and the archive
/// itself.
pub fn pack(folder: &Path, archive: &Path, excluded: &[PathBuf]) -> io::Result<Totals> {
    for (name, unit) in [
        ("throughput", "MB/s"),
        ("ratio", "x"),
        ("queued_blocks", ""),
        ("queued_packed", ""),
    ] {
        vor::record_metric_unit(name, unit);
    }
    let out = Writer::new(BufWriter::new(File::create(archive)?))?;
    let mut excluded = excluded.to_vec();
    excluded.extend(archive.canonicalize());
    let unreadable = Unreadable::default();
    let files = AtomicU64::new(0);
    let compressors = thread::available_parallelism()
        .map_or(2, usize::from)
        .clamp(1, 8);
    let (to_readers, paths) = bounded::<PathBuf>(QUEUE);
    let (to_compressors, blocks) = bounded::<Block>(QUEUE);
    let (to_writer, packed) = bounded::<Block>(QUEUE);

    thread::scope(|scope| {
        let walker = Walker {
            to_readers,
            excluded: &excluded,
            unreadable: &unreadable,
        };
        named(scope, "walker".into(), move || walker.run(folder))?;
        for number in 0..READERS {
            let (paths, to_compressors) = (paths.clone(), to_compressors.clone());
            let (unreadable, files) = (&unreadable, &files);
            named(scope, format!("reader-{number}"), move || {
                for path in paths {
                    match read_file(&path, folder, &to_compressors) {
                        Ok(Next::File) => {
                            files.fetch_add(1, Ordering::Relaxed);
                            FILES.add(1);
                        }
                        Ok(Next::Stop) => break,
                        Err(error) => unreadable.report(&path, &error),
                    }
                }
            })?;
        }
        for number in 0..compressors {
            let (blocks, to_writer) = (blocks.clone(), to_writer.clone());
            named(scope, format!("compressor-{number}"), move || {
                for block in blocks {
                    // The writer ends early only with an error, which it returns.
                    if to_writer.send(compress(block)).is_err() {
                        break;
                    }
                }
            })?;
        }
        // A queue ends when its last sender is dropped, so only the stages may own senders.
        drop((paths, to_compressors, to_writer));
        let queues = Queues { blocks, packed };
        let writer = named(scope, "writer".into(), move || write(out, queues))?;
        writer
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the writer panicked")))
    })
    .map(|totals| Totals {
        files: files.into_inner(),
        unreadable: unreadable.0.into_inner(),
        ..totals
    })
}

fn named<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    name: String,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    thread::Builder::new().name(name).spawn_scoped(scope, work)
}

/// The number of files and folders that could not be read.
#[derive(Debug, Default)]
struct Unreadable(AtomicU64);

impl Unreadable {
    fn report(&self, path: &Path, error: &io::Error) {
        self.0.fetch_add(1, Ordering::Relaxed);
        // A closed stderr does not stop the work.
        drop(writeln!(
            io::stderr(),
            "quickstart: skipped {}: {error}",
            path.display()
        ));
    }
}

/// Finds the files below a folder.
struct Walker<'a> {
    to_readers: Sender<PathBuf>,
    excluded: &'a [PathBuf],
    unreadable: &'a Unreadable,
}

#[vor::all_functions]
impl Walker<'_> {
    fn run(self, folder: &Path) {
        self.walk(folder);
    }

    /// Sends the files of a folder to the readers, and walks its folders. It does not follow
    /// links, so there are no cycles.
    fn walk(&self, folder: &Path) {
        let entries = match self.list(folder) {
            Ok(entries) => entries,
            Err(error) => return self.unreadable.report(folder, &error),
        };
        for (path, kind) in entries {
            if kind.is_dir() && !is_cache(&path) {
                self.walk(&path);
            } else if kind.is_file() && !self.excluded.contains(&path) {
                vor::profile_scope!("wait for readers");
                // The readers end early only if the later stages do.
                if self.to_readers.send(path).is_err() {
                    return;
                }
            }
        }
    }

    /// Returns the entries of a folder, sorted by path.
    fn list(&self, folder: &Path) -> io::Result<Vec<(PathBuf, std::fs::FileType)>> {
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            entries.push((entry.path(), entry.file_type()?));
        }
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(entries)
    }
}

/// Returns whether a folder holds files that can be made again: those of git, and caches, which a
/// tag marks (as in cargo's `target`).
fn is_cache(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name == ".git") || folder.join("CACHEDIR.TAG").exists()
}

/// The next step of a reader after a file.
enum Next {
    File,
    Stop,
}

/// Sends a file to the compressors in blocks.
fn read_file(path: &Path, folder: &Path, to_compressors: &Sender<Block>) -> io::Result<Next> {
    let below = path.strip_prefix(folder).unwrap_or(path);
    let parts: Vec<_> = below.iter().map(|part| part.to_string_lossy()).collect();
    let name = parts.join("/");
    vor::profile_scope!("read_file", path = name.as_str());
    let mut input = File::open(path)?;
    let mut offset = 0;
    loop {
        let bytes = read_block(&mut input)?;
        let raw_len = bytes.len();
        // An empty file is one empty block; after others an empty block is pointless.
        if raw_len == 0 && offset > 0 {
            return Ok(Next::File);
        }
        let block = Block {
            path: name.clone(),
            offset,
            raw_len: raw_len as u32,
            bytes,
        };
        offset += raw_len as u64;
        vor::profile_scope!("wait for compressors");
        // The compressors end early only if the writer does.
        if to_compressors.send(block).is_err() {
            return Ok(Next::Stop);
        }
        if raw_len < BLOCK_BYTES {
            return Ok(Next::File);
        }
    }
}

#[vor::profile]
fn read_block(input: &mut File) -> io::Result<Vec<u8>> {
    let begin = Instant::now();
    let mut bytes = Vec::with_capacity(BLOCK_BYTES);
    input.take(BLOCK_BYTES as u64).read_to_end(&mut bytes)?;
    vor::record_io(nanoseconds(begin.elapsed()), bytes.len() as u64);
    Ok(bytes)
}

#[vor::profile(args(raw_bytes = block.raw_len))]
fn compress(block: Block) -> Block {
    let begin = Instant::now();
    let bytes = lz4_flex::block::compress(&block.bytes);
    COMPRESS_TIME.record(nanoseconds(begin.elapsed()) / 1000);
    Block { bytes, ..block }
}

/// The queues whose depth the writer records: the stage after a full one is too slow.
struct Queues {
    blocks: Receiver<Block>,
    packed: Receiver<Block>,
}

/// Writes blocks as they arrive, and ends a frame after each batch.
fn write(mut out: Writer<BufWriter<File>>, queues: Queues) -> io::Result<Totals> {
    let mut totals = Totals::default();
    let mut batch = Batch::new();
    loop {
        let next = {
            vor::profile_scope!("wait for blocks");
            queues.packed.recv()
        };
        let Ok(block) = next else { break };
        let written = write_block(&mut out, &block)?;
        batch.raw_bytes += u64::from(block.raw_len);
        batch.packed_bytes += written;
        batch.blocks += 1;
        if batch.blocks == BATCH_BLOCKS {
            batch.end(&queues, &mut totals);
            batch = Batch::new();
        }
    }
    // A folder without files has a frame too, so that the capture is not empty.
    if batch.blocks > 0 || totals.frames == 0 {
        batch.end(&queues, &mut totals);
    }
    out.finish()?;
    Ok(totals)
}

#[vor::profile(args(packed_bytes = block.bytes.len()))]
fn write_block(out: &mut Writer<BufWriter<File>>, block: &Block) -> io::Result<u64> {
    let begin = Instant::now();
    let written = out.put(block)?;
    vor::record_io(nanoseconds(begin.elapsed()), written);
    Ok(written)
}

/// The blocks of a frame.
struct Batch {
    begin: Instant,
    blocks: u64,
    raw_bytes: u64,
    packed_bytes: u64,
}

impl Batch {
    fn new() -> Self {
        Self {
            begin: Instant::now(),
            blocks: 0,
            raw_bytes: 0,
            packed_bytes: 0,
        }
    }

    /// Records the metrics of the batch and ends its frame.
    fn end(&self, queues: &Queues, totals: &mut Totals) {
        let seconds = self.begin.elapsed().as_secs_f64().max(1e-9);
        vor::record_metric("throughput", self.raw_bytes as f64 / 1e6 / seconds);
        vor::record_metric(
            "ratio",
            self.raw_bytes as f64 / self.packed_bytes.max(1) as f64,
        );
        vor::record_metric("queued_blocks", queues.blocks.len() as f64);
        vor::record_metric("queued_packed", queues.packed.len() as f64);
        vor::frame_mark();
        totals.frames += 1;
        totals.raw_bytes += self.raw_bytes;
        totals.packed_bytes += self.packed_bytes;
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::archive::tests::unpack;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// Runs one test at a time, since the process has one recorder.
    pub fn lock_recorder() -> MutexGuard<'static, ()> {
        static RECORDER: Mutex<()> = Mutex::new(());
        RECORDER.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn an_archive_unpacks_to_the_same_files() {
        let _recorder = lock_recorder();
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("input");
        let mut generator = vor_examples::Generator::new(1);
        let mut expected = std::collections::BTreeMap::new();
        // Below, at and above the size of a block, and enough blocks for several frames.
        for (number, length) in [
            0,
            1,
            1000,
            BLOCK_BYTES - 1,
            BLOCK_BYTES,
            BLOCK_BYTES + 1,
            40 * BLOCK_BYTES,
        ]
        .into_iter()
        .enumerate()
        {
            let name = if number % 2 == 0 {
                format!("{number}.bin")
            } else {
                format!("deeper/{number}.bin")
            };
            let content: Vec<u8> = (0..length).map(|_| generator.bits() as u8 & 0x1f).collect();
            let path = input.join(&name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, &content).unwrap();
            expected.insert(name, content);
        }
        std::fs::create_dir_all(input.join("cache")).unwrap();
        std::fs::write(input.join("cache/CACHEDIR.TAG"), "").unwrap();
        let archive = folder.path().join("out");

        let totals = pack(&input, &archive, &[]).unwrap();

        let bytes = std::fs::read(&archive).unwrap();
        assert!(unpack(&bytes) == expected);
        let raw: usize = expected.values().map(Vec::len).sum();
        assert_eq!(
            (totals.files, totals.unreadable, totals.raw_bytes),
            (7, 0, raw as u64)
        );
        // 40 blocks, two for the file just above one, and one for each of the other five.
        assert_eq!(totals.frames, 47_u64.div_ceil(BATCH_BLOCKS));
        // The magic before the blocks, the end mark after them.
        assert_eq!(totals.packed_bytes, bytes.len() as u64 - 8 - 2);
    }

    #[test]
    fn an_empty_folder_has_a_frame_too() {
        let _recorder = lock_recorder();
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("input");
        std::fs::create_dir(&input).unwrap();
        let archive = folder.path().join("out");
        let totals = pack(&input, &archive, &[]).unwrap();
        assert_eq!((totals.files, totals.frames, totals.raw_bytes), (0, 1, 0));
        assert!(unpack(&std::fs::read(&archive).unwrap()).is_empty());
    }

    #[test]
    fn an_archive_that_cannot_be_created_is_an_error() {
        let _recorder = lock_recorder();
        let folder = tempfile::tempdir().unwrap();
        assert!(pack(folder.path(), &folder.path().join("no/such/folder"), &[]).is_err());
    }

    #[test]
    fn the_archive_and_the_capture_are_not_packed() {
        let _recorder = lock_recorder();
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().canonicalize().unwrap();
        for name in ["a", "run.vor"] {
            std::fs::write(input.join(name), name).unwrap();
        }
        let archive = input.join("out");
        let totals = pack(&input, &archive, &[input.join("run.vor")]).unwrap();
        let files: Vec<_> = unpack(&std::fs::read(&archive).unwrap())
            .into_keys()
            .collect();
        assert_eq!((files, totals.files), (vec!["a".to_owned()], 1));
    }
}
