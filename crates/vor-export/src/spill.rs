//! Stacks of records that may outgrow memory.
//!
//! All stacks of a [`Spill`] share one store: a vector up to [`MEMORY_BYTES`], and a temporary file
//! beyond that. A stack has its last records in memory and moves older ones to the store, a block
//! at a time. Popping moves the blocks back, the last first. So a thousand threads need one file,
//! and few records need none.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

/// Largest store without a file, in bytes. The web has no files.
const MEMORY_BYTES: usize = if cfg!(target_arch = "wasm32") {
    usize::MAX
} else if cfg!(test) {
    1 << 12
} else {
    16 << 20
};

/// Bytes of a block.
const BLOCK_BYTES: usize = if cfg!(test) { 1 << 8 } else { 1 << 14 };

/// The store that stacks share, in blocks.
#[derive(Debug, Default)]
pub(super) struct Spill {
    bytes: Vec<u8>,
    file: Option<Temporary>,
    /// Number of blocks, including free ones.
    blocks: u64,
    free: Vec<u64>,
}

/// A stack of bytes. A caller with records of several lengths pushes the length after each.
#[derive(Debug, Default)]
pub(super) struct Stack {
    tail: Vec<u8>,
    /// Positions of the blocks before `tail`.
    blocks: Vec<u64>,
}

impl Stack {
    /// Returns whether the stack is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.tail.is_empty() && self.blocks.is_empty()
    }

    /// Pushes a record.
    #[inline]
    pub(super) fn push(&mut self, spill: &mut Spill, record: &[u8]) -> io::Result<()> {
        self.tail.extend_from_slice(record);
        // One block remains in memory, so that alternating pushes and pops do not move it.
        if self.tail.len() >= 2 * BLOCK_BYTES {
            self.store_blocks(spill)?;
        }
        Ok(())
    }

    fn store_blocks(&mut self, spill: &mut Spill) -> io::Result<()> {
        let whole = self.tail.len() / BLOCK_BYTES - 1;
        for block in self.tail.chunks_exact(BLOCK_BYTES).take(whole) {
            self.blocks.push(spill.store(block)?);
        }
        self.tail.drain(..whole * BLOCK_BYTES);
        Ok(())
    }

    /// Pops a record of `N` bytes; `None` if the stack has fewer.
    #[inline]
    pub(super) fn pop<const N: usize>(&mut self, spill: &mut Spill) -> io::Result<Option<[u8; N]>> {
        if self.tail.len() < N {
            self.load_blocks(spill, N)?;
        }
        let record = self.tail.last_chunk().copied();
        if record.is_some() {
            self.tail.truncate(self.tail.len() - N);
        }
        Ok(record)
    }

    /// Pops a record of `bytes` bytes and appends it to `record`. Returns whether the stack had
    /// that many.
    pub(super) fn pop_into(
        &mut self,
        spill: &mut Spill,
        bytes: usize,
        record: &mut Vec<u8>,
    ) -> io::Result<bool> {
        if self.tail.len() < bytes {
            self.load_blocks(spill, bytes)?;
        }
        let Some(rest) = self.tail.len().checked_sub(bytes) else {
            return Ok(false);
        };
        record.extend_from_slice(&self.tail[rest..]);
        self.tail.truncate(rest);
        Ok(true)
    }

    /// Loads blocks until at least `bytes` bytes are in memory, or no block is left.
    #[cold]
    fn load_blocks(&mut self, spill: &mut Spill, bytes: usize) -> io::Result<()> {
        let missing = bytes.saturating_sub(self.tail.len()).div_ceil(BLOCK_BYTES);
        let first = self.blocks.len() - missing.min(self.blocks.len());
        let mut tail = vec![0; (self.blocks.len() - first) * BLOCK_BYTES];
        for (block, into) in self
            .blocks
            .drain(first..)
            .zip(tail.chunks_exact_mut(BLOCK_BYTES))
        {
            spill.load(block, into)?;
        }
        tail.append(&mut self.tail);
        self.tail = tail;
        Ok(())
    }
}

impl Spill {
    /// Stores a block, and returns its position.
    fn store(&mut self, block: &[u8]) -> io::Result<u64> {
        let at = self.free.pop().unwrap_or_else(|| {
            self.blocks += 1;
            self.blocks - 1
        });
        if self.file.is_none() && self.blocks as usize > MEMORY_BYTES / BLOCK_BYTES {
            let mut file = Temporary::create()?;
            file.write(0, &self.bytes)?;
            self.file = Some(file);
            self.bytes = Vec::new();
        }
        match &mut self.file {
            Some(file) => file.write(at * BLOCK_BYTES as u64, block)?,
            None => {
                let begin = at as usize * BLOCK_BYTES;
                self.bytes.resize(self.blocks as usize * BLOCK_BYTES, 0);
                self.bytes[begin..begin + BLOCK_BYTES].copy_from_slice(block);
            }
        }
        Ok(at)
    }

    /// Reads a block and frees its position.
    fn load(&mut self, at: u64, into: &mut [u8]) -> io::Result<()> {
        match &mut self.file {
            Some(file) => file.read(at * BLOCK_BYTES as u64, into)?,
            None => into.copy_from_slice(&self.bytes[at as usize * BLOCK_BYTES..][..into.len()]),
        }
        self.free.push(at);
        // An empty store needs neither memory nor file.
        if self.free.len() as u64 == self.blocks {
            *self = Self::default();
        }
        Ok(())
    }
}

/// A file that is removed with its value: immediately if the system can remove an open file,
/// otherwise when the file is closed.
#[derive(Debug)]
struct Temporary {
    file: Option<File>,
    path: PathBuf,
}

impl Temporary {
    fn create() -> io::Result<Self> {
        Self::create_at(|| {
            // `RandomState` has random keys.
            let number = RandomState::new().hash_one(0);
            let name = format!("vor-{}-{number:x}.spill", std::process::id());
            std::env::temp_dir().join(name)
        })
    }

    /// Creates a file at the first of the paths where nothing is.
    fn create_at(mut next_path: impl FnMut() -> PathBuf) -> io::Result<Self> {
        loop {
            let path = next_path();
            let mut options = OpenOptions::new();
            // `create_new` rejects an existing file, and a link that somebody placed there.
            options.read(true).write(true).create_new(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            match options.open(&path) {
                Ok(file) => {
                    if cfg!(unix) {
                        // A failure leaves a file behind, and has no other effect.
                        let _ = std::fs::remove_file(&path);
                    }
                    return Ok(Self {
                        file: Some(file),
                        path,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn at(&mut self, at: u64) -> io::Result<&mut File> {
        let file = self.file.as_mut().ok_or(io::ErrorKind::NotFound)?;
        file.seek(SeekFrom::Start(at))?;
        Ok(file)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.at(at)?.write_all(bytes)
    }

    fn read(&mut self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.at(at)?.read_exact(into)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        self.file = None;
        if !cfg!(unix) {
            // A failure cannot be reported.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_return_their_records_last_first() {
        let mut spill = Spill::default();
        let mut stacks: Vec<Stack> = (0..3).map(|_| Stack::default()).collect();
        let mut expected = vec![Vec::new(); 3];
        for number in 0..5_000_u64 {
            let stack = (number * number % 3) as usize;
            let mut record = [stack as u8; 12];
            record[4..].copy_from_slice(&number.to_le_bytes());
            stacks[stack].push(&mut spill, &record).unwrap();
            expected[stack].push(record);
        }
        assert!(
            spill.file.is_some(),
            "the records outgrow the memory of a test"
        );
        let used = spill.blocks;
        for (stack, mut expected) in stacks.iter_mut().zip(expected) {
            let mut other = Stack::default();
            while let Some(record) = stack.pop(&mut spill).unwrap() {
                assert_eq!(Some(record), expected.pop());
                other.push(&mut spill, &[7; 5]).unwrap();
            }
            assert!(expected.is_empty() && stack.is_empty());
        }
        assert_eq!(
            spill.blocks, used,
            "a block that one stack frees serves another"
        );
    }

    #[test]
    fn records_of_any_length_extend_across_blocks() {
        let mut spill = Spill::default();
        let mut stack = Stack::default();
        let record = |number: usize| vec![number as u8; number * number % (3 * BLOCK_BYTES)];
        // Up and down, and higher each time.
        let mut height = 0;
        for turn in 0..60 {
            for number in height..height + 7 {
                let record = record(number);
                stack.push(&mut spill, &record).unwrap();
                stack
                    .push(&mut spill, &(record.len() as u32).to_le_bytes())
                    .unwrap();
            }
            height += 7;
            let down = if turn == 59 { height } else { turn % 7 };
            for _ in 0..down {
                height -= 1;
                let bytes = stack.pop(&mut spill).unwrap().map(u32::from_le_bytes);
                let mut found = Vec::new();
                assert!(
                    stack
                        .pop_into(&mut spill, bytes.unwrap() as usize, &mut found)
                        .unwrap()
                );
                assert!(found == record(height), "record {height}");
            }
        }
        assert!(stack.is_empty());
        assert_eq!(stack.pop::<4>(&mut spill).unwrap(), None);
        assert_eq!(spill.blocks, 0, "the last block frees the store");
    }

    #[test]
    fn few_bytes_are_not_empty() {
        let (mut spill, mut stack) = (Spill::default(), Stack::default());
        assert!(stack.is_empty());
        stack.push(&mut spill, &[7]).unwrap();
        assert!(!stack.is_empty() && stack.blocks.is_empty());
        assert_eq!(stack.pop(&mut spill).unwrap(), Some([7]));
        assert!(stack.is_empty());
    }

    #[test]
    fn pushes_and_pops_in_turn_move_no_block() {
        let (mut spill, mut stack) = (Spill::default(), Stack::default());
        let record = [1; 4];
        for _ in 0..2 * BLOCK_BYTES / record.len() {
            stack.push(&mut spill, &record).unwrap();
        }
        for _ in 0..9 {
            assert_eq!(stack.blocks.len(), 1);
            assert_eq!(stack.pop(&mut spill).unwrap(), Some(record));
            assert_eq!(stack.blocks.len(), 1);
            stack.push(&mut spill, &record).unwrap();
        }
    }

    #[test]
    fn a_store_of_the_largest_size_in_memory_has_no_file() {
        let mut spill = Spill::default();
        for number in 0..MEMORY_BYTES / BLOCK_BYTES {
            spill.store(&[number as u8; BLOCK_BYTES]).unwrap();
        }
        assert_eq!(spill.bytes.len(), MEMORY_BYTES);
        assert!(spill.file.is_none());
        spill.store(&[0xff; BLOCK_BYTES]).unwrap();
        assert!(spill.file.is_some() && spill.bytes.is_empty());
        let mut block = [0; BLOCK_BYTES];
        spill.load(1, &mut block).unwrap();
        assert_eq!(block, [1; BLOCK_BYTES]);
    }

    #[test]
    fn an_existing_file_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let (existing, free) = (folder.path().join("existing"), folder.path().join("free"));
        std::fs::write(&existing, "kept").unwrap();
        let mut paths = [existing.clone(), existing.clone(), free.clone()].into_iter();
        let mut file = Temporary::create_at(|| paths.next().unwrap()).unwrap();
        assert_eq!(file.path, free);
        file.write(0, b"other").unwrap();
        assert_eq!(std::fs::read(existing).unwrap(), b"kept");
    }

    #[test]
    fn a_missing_folder_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let mut paths = Some(folder.path().join("missing/file")).into_iter();
        let created = Temporary::create_at(|| paths.next().expect("one attempt"));
        assert_eq!(created.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    #[cfg(unix)]
    fn a_temporary_file_has_no_name() {
        let mut file = Temporary::create().unwrap();
        file.write(3, b"abc").unwrap();
        let mut read = [1; 6];
        file.read(0, &mut read).unwrap();
        assert_eq!(&read, b"\0\0\0abc");
        assert!(!file.path.exists());
    }
}
