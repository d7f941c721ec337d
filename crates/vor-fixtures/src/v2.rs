//! Captures of version 2, byte by byte.
//!
//! `vor_capture::format::v2` and its module `flame` describe the layout. The blocks of LZ4 consist
//! of literals, so a test can state every size: `n` bytes take `n + 1`, and from 15 bytes on one
//! more, and another one for each 255 bytes.

/// Returns the header of a capture.
pub fn header(flame: u8, columns: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = b"VOR1\x02\x00".to_vec();
    bytes.push(flame);
    bytes.extend((columns.len() as u16).to_le_bytes());
    for (name, unit) in columns {
        bytes.extend(text(name));
        bytes.extend(text(unit));
    }
    bytes
}

/// Returns a text after its length, of which a recorder wrote the lowest 16 bits.
fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat()
}

/// Returns a block of LZ4.
pub fn block(raw: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    match raw.len().checked_sub(15) {
        None => bytes.push((raw.len() << 4) as u8),
        Some(more) => {
            bytes.push(0xf0);
            bytes.extend(vec![255; more / 255]);
            bytes.push((more % 255) as u8);
        }
    }
    bytes.extend(raw);
    bytes
}

/// Returns the record of a body.
pub fn record(body: &[u8]) -> Vec<u8> {
    stored(body.len() as u32, &block(body))
}

/// Returns a record with this raw size and this block.
pub fn stored(raw: u32, block: &[u8]) -> Vec<u8> {
    let len = block.len() as u32 + 4;
    [&len.to_le_bytes()[..], &raw.to_le_bytes(), block].concat()
}

/// Returns the body of the declaration of a column.
pub fn column(id: u16, name: &str, unit: &str) -> Vec<u8> {
    [&[1][..], &id.to_le_bytes(), &text(name), &text(unit)].concat()
}

/// Returns the body of a frame.
pub fn frame(system: &[f64], user: &[(u16, f64)], flame: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend(system.iter().flat_map(|value| value.to_le_bytes()));
    bytes.extend((user.len() as u16).to_le_bytes());
    for (id, value) in user {
        bytes.extend(id.to_le_bytes());
        bytes.extend(value.to_le_bytes());
    }
    bytes.extend((flame.len() as u32).to_le_bytes());
    bytes.extend(flame);
    bytes
}

/// Returns a whole puffin frame.
pub fn puffin(meta: &[u8], streams: &[u8], table: &[u8]) -> Vec<u8> {
    let packed = [&(streams.len() as u32).to_le_bytes()[..], &block(streams)].concat();
    puffin_with(meta, &packed, table)
}

/// The same with packed streams, raw size included.
pub fn puffin_with(meta: &[u8], packed: &[u8], table: &[u8]) -> Vec<u8> {
    [
        &b"PFD4"[..],
        &(meta.len() as u32).to_le_bytes(),
        meta,
        &(packed.len() as u32).to_le_bytes(),
        &[1],
        packed,
        &(table.len() as u32).to_le_bytes(),
        table,
    ]
    .concat()
}

/// Returns a number of at most 64 bits, in bincode's compact form.
pub fn varint(value: u64) -> Vec<u8> {
    match value {
        0..=250 => vec![value as u8],
        251..=0xffff => [&[251][..], &(value as u16).to_le_bytes()].concat(),
        0x1_0000..=0xffff_ffff => [&[252][..], &(value as u32).to_le_bytes()].concat(),
        _ => [&[253][..], &value.to_le_bytes()].concat(),
    }
}

/// Returns a signed number.
pub fn zigzag(value: i64) -> Vec<u8> {
    varint(((value << 1) ^ (value >> 63)).cast_unsigned())
}

/// Returns bytes after their number.
pub fn blob(bytes: &[u8]) -> Vec<u8> {
    [&varint(bytes.len() as u64)[..], bytes].concat()
}

/// Returns an optional value.
pub fn option(value: Option<Vec<u8>>) -> Vec<u8> {
    match value {
        None => vec![0],
        Some(value) => [&[1][..], &value].concat(),
    }
}

/// Returns the head of a puffin frame.
pub fn meta(frame_index: u64, range_ns: (i64, i64), num_scopes: u64) -> Vec<u8> {
    [
        varint(frame_index),
        zigzag(range_ns.0),
        zigzag(range_ns.1),
        varint(999),
        varint(num_scopes),
    ]
    .concat()
}

/// Returns a scope of a stream.
pub fn scope(id: u32, start_ns: i64, data: &str, children: &[u8], end_ns: i64) -> Vec<u8> {
    [
        &b"("[..],
        &id.to_le_bytes(),
        &start_ns.to_le_bytes(),
        &[data.len() as u8],
        data.as_bytes(),
        &(children.len() as u64).to_le_bytes(),
        children,
        b")",
        &end_ns.to_le_bytes(),
    ]
    .concat()
}

/// Returns a thread of the streams.
pub fn thread(start_ns: Option<i64>, name: &str, stream: &[u8], num_scopes: u64) -> Vec<u8> {
    [
        option(start_ns.map(zigzag)),
        blob(name.as_bytes()),
        blob(stream),
        varint(num_scopes),
        varint(7),
        zigzag(11),
        zigzag(-12),
    ]
    .concat()
}

/// Returns the streams of threads.
pub fn streams(threads: &[Vec<u8>]) -> Vec<u8> {
    [varint(threads.len() as u64), threads.concat()].concat()
}

/// Returns an entry of a scope table.
pub fn entry(
    id: Option<u64>,
    name: Option<&str>,
    function: &str,
    file: &str,
    line: u64,
) -> Vec<u8> {
    [
        option(id.map(varint)),
        option(name.map(|name| blob(name.as_bytes()))),
        blob(function.as_bytes()),
        blob(file.as_bytes()),
        varint(line),
    ]
    .concat()
}

/// Returns a scope table.
pub fn table(entries: &[Vec<u8>]) -> Vec<u8> {
    [varint(entries.len() as u64), entries.concat()].concat()
}
