//! The layout of a file of shared memory, which the recorder writes and the recovery reads.
//!
//! The file is for the same machine, so its words are the machine's own.
//!
//! ```text
//! header    words, at the indices below
//! log       blocks of entries: word 0 of a block is the place of the next one, word 1 its bytes
//! rings     per ring a thread's state, the order of the chunks, and the slots
//! ```
//!
//! An entry of the log is two 32-bit numbers, its kind and the length of its payload, and the
//! payload. Everything that the recovery must find in a ring is in the entry [`RING`] as places in
//! the file, so that it does not depend on how the compiler laid out the state.

/// Identifies the file, in the machine's byte order.
pub(crate) const MAGIC: u64 = u64::from_ne_bytes(*b"vor-shm\n");
pub(crate) const VERSION: u64 = 1;

/// Bytes of the header.
pub(crate) const HEADER_BYTES: u64 = 4096;
/// Place of the first block of the log.
pub(crate) const LOG_AT: u64 = crate::os::shared_file::AREA_BYTES;

/// Indices of the header's words.
pub(crate) mod word {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const VERSION: usize = 1;
    pub(crate) const PID: usize = 2;
    /// 1 if ticks are the processor's counter, which other processes can read.
    pub(crate) const HAS_HARDWARE_TICKS: usize = 3;
    /// Identifies the recording.
    pub(crate) const FILE_ID: usize = 4;
    pub(crate) const START_UNIX_NS: usize = 5;
    pub(crate) const START_TICKS: usize = 6;
    /// The number of the settled positions that count; see [`settle`](crate::hot::ring).
    pub(crate) const EPOCH: usize = 7;
    /// Twice: an epoch, the identity of the capture, and its length then.
    pub(crate) const CAPTURE: usize = 8;
    /// How many points of the clock there were.
    pub(crate) const SYNC_COUNT: usize = 16;
    /// The first point of the clock, and the newest others in turn, four words each.
    pub(crate) const SYNCS: usize = 17;
}

/// Points of the clock in the header.
pub(crate) const SYNCS: usize = 64;

/// Bytes at the beginning of a block of the log.
pub(crate) const BLOCK_HEAD_BYTES: u64 = 16;

/// Bytes of a capture that hold declarations, in the order of the log.
pub(crate) const DECLARATION: u32 = 1;
/// The meaning of the words of a site's records: 32-bit numbers, the kinds and the measures.
pub(crate) const WORDS: u32 = 2;
/// A ring: the words of [`RingEntry`].
pub(crate) const RING: u32 = 3;
/// The thread that records into a ring from a position on: the number of the ring, that of the
/// thread, and the position, in words.
pub(crate) const OWNER: u32 = 4;
/// The capture that the process writes: its identity, and the bytes of its path.
pub(crate) const CAPTURE: u32 = 5;

/// Declares a structure of words, with its conversions to and from an array of them.
macro_rules! words {
    (
        $(#[$meta:meta])*
        struct $Name:ident: $count:ident { $($(#[$field_meta:meta])* $field:ident,)* }
    ) => {
        /// Words of the structure.
        pub(crate) const $count: usize = [$(stringify!($field)),*].len();

        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $Name {
            $($(#[$field_meta])* pub(crate) $field: u64,)*
        }

        impl $Name {
            pub(crate) fn words(&self) -> [u64; $count] {
                [$(self.$field),*]
            }

            #[cfg(feature = "recovery")]
            pub(crate) fn from_words([$($field),*]: [u64; $count]) -> Self {
                Self { $($field),* }
            }
        }
    };
}

words! {
    /// Where everything of a ring is in the file.
    struct RingEntry: RING_WORDS {
        slots,
        /// The address of the slots in the process, from which the cursor counts.
        slots_address,
        slot_count,
        chunk_slots,
        /// Entries of two words: the number of the chunk, and the slots that are used in it.
        order,
        cursor,
        started,
        freed,
        /// Twice: an epoch, a position, and the records that were dropped.
        settled,
        dropped,
        /// The height of the stack of open scopes: their number times the bytes of an entry.
        top,
        /// A byte: whether the thread has ended.
        exited,
        open,
        open_count,
        open_bytes,
        /// In an entry of the stack: the start, and the site in 32 bits.
        open_start,
        open_site,
        /// The number of the ring.
        number,
    }
}
