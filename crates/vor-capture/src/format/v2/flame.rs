//! The flame of a version-2 frame: one whole puffin 0.20 frame, read without puffin.
//!
//! `"PFD4", u32 a, meta, u32 b, u8 compression, streams, u32 c, scope table`. Meta, streams and
//! table are in bincode's compact form: varints, signed ones zigzag, strings as length and bytes.
//! The streams are one more LZ4 block that holds, per thread, the scopes as nested records of
//! fixed-width integers. Everything is checked for an exact fit, since a version-2 capture has no
//! checksum, and only the fit distinguishes a whole flame from a damaged one.

use super::{Cursor, MAX_RECORD_BYTES};

/// The contents of a puffin frame.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flame {
    /// Number of the puffin frame, which counts marks and not records. A record that repeats it
    /// repeats the whole flame.
    pub frame_index: u64,
    /// Start of the first and end of the last scope, in nanoseconds since 1970.
    pub range_ns: (i64, i64),
    /// The threads that have scopes in the frame.
    pub threads: Vec<FlameThread>,
    /// All scopes known when the frame was made, in the order of the table.
    pub scopes: Vec<FlameScope>,
}

/// One thread of a [`Flame`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlameThread {
    /// The thread's name, empty when it has none.
    pub name: String,
    /// When puffin first saw the thread, in nanoseconds since 1970.
    pub start_time_ns: Option<i64>,
    /// Its spans in pre-order.
    pub spans: Vec<FlameSpan>,
}

/// One span of a [`FlameThread`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlameSpan {
    /// The scope it belongs to; the table may lack it.
    pub scope_id: u32,
    /// When it began, in nanoseconds since 1970.
    pub start_ns: i64,
    /// When it ended.
    pub end_ns: i64,
    /// Number of spans around it.
    pub depth: u32,
    /// Number of spans in its subtree, itself included.
    pub subtree_len: u32,
    /// The argument text, empty for none.
    pub data: String,
}

/// One entry of the scope table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlameScope {
    /// The id that [`FlameSpan::scope_id`] refers to.
    pub id: Option<u32>,
    /// The name given to a block; `None` for a function.
    pub scope_name: Option<String>,
    /// The function around it, or the whole name of a scope named at run time.
    pub function_name: String,
    /// Source file, possibly empty.
    pub file_path: String,
    /// Line in the source file, 0 when unknown.
    pub line: u32,
}

impl FlameScope {
    /// Returns the name that puffin shows: the block's, else the function's.
    #[must_use]
    pub fn name(&self) -> &str {
        self.scope_name.as_deref().unwrap_or(&self.function_name)
    }
}

/// Reads a whole puffin frame.
///
/// # Errors
///
/// One line that says what is wrong.
pub fn parse(bytes: &[u8]) -> Result<Flame, String> {
    let mut cursor = Cursor::new(bytes);
    if cursor.bytes(4) != Some(b"PFD4") {
        return Err("a puffin frame should begin with `PFD4`".into());
    }
    let meta = section(&mut cursor, "meta")?;
    let stream_len = cursor.u32();
    let compression = cursor.u8();
    let (Some(stream_len), Some(compression)) = (stream_len, compression) else {
        return Err("the length of the streams is missing".into());
    };
    if compression != 1 {
        return Err(format!(
            "the compression of the streams is {compression}, not LZ4 (1)"
        ));
    }
    let Some(streams) = cursor.bytes(stream_len as usize) else {
        return Err(format!(
            "the streams are {stream_len} bytes long, and {} are there",
            cursor.left()
        ));
    };
    let table = section(&mut cursor, "scope table")?;
    if cursor.left() != 0 {
        return Err(format!("{} bytes follow the scope table", cursor.left()));
    }
    let mut flame = Flame::default();
    let num_scopes =
        parse_meta(meta, &mut flame).ok_or("the meta section is not what puffin writes")?;
    flame.threads = parse_streams(&unpack(streams)?)?;
    flame.scopes = parse_table(table).ok_or("the scope table is not what puffin writes")?;
    let found = flame
        .threads
        .iter()
        .map(|thread| thread.spans.len() as u64)
        .sum::<u64>();
    if found != num_scopes {
        return Err(format!(
            "the flame has {found} spans, not the {num_scopes} of its head"
        ));
    }
    Ok(flame)
}

fn section<'a>(cursor: &mut Cursor<'a>, what: &str) -> Result<&'a [u8], String> {
    let len = cursor
        .u32()
        .ok_or_else(|| format!("the length of the {what} is missing"))?;
    cursor
        .bytes(len as usize)
        .ok_or_else(|| format!("{what} of {len} bytes is cut off"))
}

/// Reads the meta section; returns its number of scopes.
fn parse_meta(bytes: &[u8], flame: &mut Flame) -> Option<u64> {
    let mut cursor = Cursor::new(bytes);
    flame.frame_index = varint(&mut cursor)?;
    flame.range_ns = (zigzag(&mut cursor)?, zigzag(&mut cursor)?);
    let _num_bytes = varint(&mut cursor)?;
    let num_scopes = varint(&mut cursor)?;
    (cursor.left() == 0).then_some(num_scopes)
}

fn unpack(streams: &[u8]) -> Result<Vec<u8>, String> {
    let raw = Cursor::new(streams)
        .u32()
        .ok_or("the raw size of the streams is missing")?;
    let most = (streams.len() as u64 * 255).min(MAX_RECORD_BYTES as u64);
    if u64::from(raw) > most {
        return Err(format!(
            "the streams are {raw} bytes long, more than {most}"
        ));
    }
    let mut out = vec![0; raw as usize];
    match lz4_flex::block::decompress_into(&streams[4..], &mut out) {
        Ok(n) if n == out.len() => Ok(out),
        Ok(n) => Err(format!("streams of {raw} bytes unpack to {n}")),
        Err(error) => Err(format!("the streams are not LZ4: {error}")),
    }
}

fn parse_streams(bytes: &[u8]) -> Result<Vec<FlameThread>, String> {
    let short = || String::from("the streams end inside a thread");
    let mut cursor = Cursor::new(bytes);
    let count = varint(&mut cursor).ok_or_else(short)?;
    let mut threads = Vec::new();
    for _ in 0..count {
        let start_time_ns = option(&mut cursor, zigzag).ok_or_else(short)?;
        let name = string(&mut cursor).ok_or_else(short)?;
        let stream = blob(&mut cursor).ok_or_else(short)?;
        let num_scopes = varint(&mut cursor).ok_or_else(short)?;
        let _depth = varint(&mut cursor).ok_or_else(short)?;
        let _range_ns = zigzag(&mut cursor)
            .and_then(|_| zigzag(&mut cursor))
            .ok_or_else(short)?;
        let spans = parse_stream(stream)?;
        if spans.len() as u64 != num_scopes {
            return Err(format!(
                "{num_scopes} spans of thread {name:?} were announced, found {}",
                spans.len()
            ));
        }
        threads.push(FlameThread {
            name,
            start_time_ns,
            spans,
        });
    }
    if cursor.left() != 0 {
        return Err(format!(
            "{} bytes follow the {count} threads",
            cursor.left()
        ));
    }
    Ok(threads)
}

/// Reads one thread's nested scopes.
///
/// A scope is `'(' u32 id, i64 start, u8 n, n bytes data, u64 size of children, children, ')' i64
/// end`. The open scopes are on an explicit stack, so the depth in the file does not become a depth
/// of calls.
fn parse_stream(bytes: &[u8]) -> Result<Vec<FlameSpan>, String> {
    let mut cursor = Cursor::new(bytes);
    let mut spans: Vec<FlameSpan> = Vec::new();
    let mut open: Vec<(usize, usize)> = Vec::new();
    loop {
        let end = open.last().map_or(bytes.len(), |&(_, end)| end);
        let at = cursor.at();
        if at < end {
            let (span, children_end) = begin(&mut cursor, open.len(), end)
                .ok_or_else(|| format!("no scope begins at byte {at} of a stream"))?;
            open.push((spans.len(), children_end));
            spans.push(span);
            continue;
        }
        let Some((index, _)) = open.pop() else {
            return Ok(spans);
        };
        let (Some(b')'), Some(end_ns)) = (cursor.u8(), cursor.i64()) else {
            return Err(format!(
                "a scope that ends at byte {at} of a stream has no end mark"
            ));
        };
        let subtree_len = spans.len() - index;
        spans[index].end_ns = end_ns;
        spans[index].subtree_len = u32::try_from(subtree_len).unwrap_or(u32::MAX);
        // The end of a scope may not lie beyond the children of the scope around it.
        if open.last().is_some_and(|&(_, end)| cursor.at() > end) {
            return Err("a scope reaches beyond the one around it".into());
        }
    }
}

/// Reads the front of a scope and where its children end.
fn begin(cursor: &mut Cursor<'_>, depth: usize, end: usize) -> Option<(FlameSpan, usize)> {
    if cursor.u8()? != b'(' {
        return None;
    }
    let scope_id = cursor.u32()?;
    let start_ns = cursor.i64()?;
    let data_len = cursor.u8()?;
    let data = cursor.bytes(usize::from(data_len))?;
    let children_len = usize::try_from(cursor.u64()?).ok()?;
    let children_end = cursor.at().checked_add(children_len)?;
    let span = FlameSpan {
        scope_id,
        start_ns,
        end_ns: start_ns,
        depth: u32::try_from(depth).ok()?,
        subtree_len: 1,
        data: std::str::from_utf8(data).ok()?.into(),
    };
    (children_end <= end).then_some((span, children_end))
}

fn parse_table(bytes: &[u8]) -> Option<Vec<FlameScope>> {
    let mut cursor = Cursor::new(bytes);
    let count = varint(&mut cursor)?;
    let mut scopes = Vec::new();
    for _ in 0..count {
        let id = option(&mut cursor, varint)?;
        scopes.push(FlameScope {
            id: id.map(u32::try_from).transpose().ok()?,
            scope_name: option(&mut cursor, string)?,
            function_name: string(&mut cursor)?,
            file_path: string(&mut cursor)?,
            line: u32::try_from(varint(&mut cursor)?).ok()?,
        });
    }
    (cursor.left() == 0).then_some(scopes)
}

fn varint(cursor: &mut Cursor<'_>) -> Option<u64> {
    match cursor.u8()? {
        251 => cursor.u16().map(u64::from),
        252 => cursor.u32().map(u64::from),
        253 => cursor.u64(),
        small @ 0..=250 => Some(u64::from(small)),
        _ => None,
    }
}

fn zigzag(cursor: &mut Cursor<'_>) -> Option<i64> {
    let value = varint(cursor)?;
    Some((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
}

fn blob<'a>(cursor: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let len = usize::try_from(varint(cursor)?).ok()?;
    cursor.bytes(len)
}

fn string(cursor: &mut Cursor<'_>) -> Option<String> {
    std::str::from_utf8(blob(cursor)?).ok().map(String::from)
}

/// Reads an optional value; the outer `None` means that the bytes are wrong.
fn option<'a, T>(
    cursor: &mut Cursor<'a>,
    read: impl FnOnce(&mut Cursor<'a>) -> Option<T>,
) -> Option<Option<T>> {
    match cursor.u8()? {
        0 => Some(None),
        1 => read(cursor).map(Some),
        _ => None,
    }
}
