//! Stacks of records that outgrow memory.
//!
//! All stacks of a [`Spill`] share one space of bytes: a vector up to [`MEMORY_BYTES`], and from then on a temporary file. A stack keeps its last records in memory, and puts
//! them into the space a block at a time; popping takes them back last first. So a thousand threads need one file, and what few records need stays in memory.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use crate::sync::Ordering;
use crate::sync::global::AtomicU32;

/// Bytes that are held before there is a file. The web has none.
const MEMORY_BYTES: usize = if cfg!(target_arch = "wasm32") {
    usize::MAX
} else if cfg!(test) {
    1 << 12
} else {
    16 << 20
};

/// Bytes of a block, about: records are not cut.
const BLOCK_BYTES: usize = if cfg!(test) { 1 << 8 } else { 1 << 15 };

/// The space that stacks share.
#[derive(Debug, Default)]
pub(super) struct Spill {
    bytes: Vec<u8>,
    file: Option<Temporary>,
    /// Bytes in use; what is written next comes behind them.
    len: u64,
}

/// A stack of records of `N` bytes.
#[derive(Debug, Default)]
pub(super) struct Stack<const N: usize> {
    tail: Vec<u8>,
    /// Where the blocks before `tail` are, and their lengths.
    blocks: Vec<(u64, u32)>,
}

impl<const N: usize> Stack<N> {
    /// Adds a record.
    pub(super) fn push(&mut self, spill: &mut Spill, record: [u8; N]) -> io::Result<()> {
        if self.tail.len() + N > BLOCK_BYTES {
            self.blocks
                .push((spill.append(&self.tail)?, self.tail.len() as u32));
            self.tail.clear();
        }
        self.tail.extend_from_slice(&record);
        Ok(())
    }

    /// Takes the record that was added last.
    pub(super) fn pop(&mut self, spill: &mut Spill) -> io::Result<Option<[u8; N]>> {
        if self.tail.is_empty() {
            let Some((at, len)) = self.blocks.pop() else {
                return Ok(None);
            };
            self.tail.resize(len as usize, 0);
            spill.read(at, &mut self.tail)?;
        }
        let record = self.tail.last_chunk().copied();
        self.tail.truncate(self.tail.len().saturating_sub(N));
        Ok(record)
    }
}

impl Spill {
    /// Returns how many bytes are in use.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Gives back the bytes behind `len`; stacks that used them must be empty.
    pub(super) fn truncate(&mut self, len: u64) {
        self.len = self.len.min(len);
    }

    fn append(&mut self, block: &[u8]) -> io::Result<u64> {
        let at = self.len;
        if self.file.is_none() && at as usize + block.len() > MEMORY_BYTES {
            let mut file = Temporary::create()?;
            file.write(0, &self.bytes[..at as usize])?;
            self.file = Some(file);
            self.bytes = Vec::new();
        }
        match &mut self.file {
            Some(file) => file.write(at, block)?,
            None => {
                self.bytes.truncate(at as usize);
                self.bytes.extend_from_slice(block);
            }
        }
        self.len += block.len() as u64;
        Ok(at)
    }

    fn read(&mut self, at: u64, into: &mut [u8]) -> io::Result<()> {
        match &mut self.file {
            Some(file) => file.read(at, into),
            None => {
                into.copy_from_slice(&self.bytes[at as usize..][..into.len()]);
                Ok(())
            }
        }
    }
}

/// A file that is gone with its value: at once where the system lets an open file lose its name, else when it is closed.
#[derive(Debug)]
struct Temporary {
    file: Option<File>,
    path: PathBuf,
}

impl Temporary {
    fn create() -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("vor-{}-{number}.spill", std::process::id());
            let path = std::env::temp_dir().join(name);
            let mut options = OpenOptions::new();
            // A name that is taken, or a link that somebody laid there, is refused.
            options.read(true).write(true).create_new(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            match options.open(&path) {
                Ok(file) => {
                    if cfg!(unix) {
                        // Whatever stands in the way of that leaves a file behind, and does no harm else.
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
            // There is nobody to tell.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_give_back_what_they_got_last_first() {
        let mut spill = Spill::default();
        let mut stacks: Vec<Stack<12>> = (0..3).map(|_| Stack::default()).collect();
        let mut expected = vec![Vec::new(); 3];
        let record = |stack: u32, number: u64| {
            let mut record = [0; 12];
            record[..4].copy_from_slice(&stack.to_le_bytes());
            record[4..].copy_from_slice(&number.to_le_bytes());
            record
        };
        for number in 0..5_000_u64 {
            let stack = (number * number % 3) as usize;
            let record = record(stack as u32, number);
            stacks[stack].push(&mut spill, record).unwrap();
            expected[stack].push(record);
        }
        assert!(spill.file.is_some(), "so much outgrows the memory of a test");
        let used = spill.len();
        for (stack, mut expected) in stacks.iter_mut().zip(expected) {
            // What another stack puts there meanwhile, and gives back, is nobody's business.
            let mut other = Stack::default();
            while let Some(record) = stack.pop(&mut spill).unwrap() {
                assert_eq!(Some(record), expected.pop());
                other.push(&mut spill, [7; 5]).unwrap();
            }
            assert!(expected.is_empty());
            spill.truncate(used);
        }
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
