//! The stream for pages in browsers: RFC 6455, as far as a stream of one direction needs it,
//! without input and output.
//!
//! ```text
//! GET /?spans=all&token=… HTTP/1.1
//! Origin: https://viewer.example
//! Upgrade: websocket
//! Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==
//! ```
//!
//! A browser says where its page came from. The program answers only pages of the origins in its
//! settings, so that no other page can look into it. The capture is the contents of the binary
//! messages, one after the other.

use vor_capture::Error;

use super::request::Choice;

/// Most bytes of the head of a request.
pub(super) const MAX_HEAD_BYTES: usize = 8 << 10;
/// A frame that ends the connection.
pub(super) const CLOSE: [u8; 2] = [0x88, 0];

/// The request of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Upgrade {
    pub(super) choice: Choice,
    pub(super) token: Option<String>,
    /// The origin of the page; other programs send none.
    pub(super) origin: Option<String>,
    key: String,
}

impl Upgrade {
    /// Reads the head of a request, without the empty line at its end.
    pub(super) fn parse(head: &[u8]) -> Result<Self, Error> {
        let wrong = |what: &str| Error::config(format!("the request of the page: {what}"));
        let text = std::str::from_utf8(head).map_err(|_| wrong("it is not text"))?;
        let mut lines = text.split("\r\n");
        let mut first = lines.next().unwrap_or_default().split(' ');
        let (Some("GET"), Some(target), Some("HTTP/1.1"), None) =
            (first.next(), first.next(), first.next(), first.next())
        else {
            return Err(wrong("it is not `GET … HTTP/1.1`"));
        };
        let (mut key, mut origin, mut version) = (None, None, None);
        let mut upgrades = false;
        for line in lines.filter(|line| !line.is_empty()) {
            let (name, value) = line
                .split_once(':')
                .ok_or_else(|| wrong("a header has no colon"))?;
            let value = value.trim();
            let place = match name.to_ascii_lowercase().as_str() {
                "sec-websocket-key" => &mut key,
                "sec-websocket-version" => &mut version,
                "origin" => &mut origin,
                "upgrade" => {
                    upgrades |= value.eq_ignore_ascii_case("websocket");
                    continue;
                }
                _ => continue,
            };
            // Two of them may mean different things to different readers.
            if place.replace(value).is_some() {
                return Err(wrong("a header is there twice"));
            }
        }
        if !upgrades || version != Some("13") {
            return Err(wrong("it is no WebSocket of version 13"));
        }
        let is_key = |key: &&str| key.len() == 24 && key.ends_with("==");
        let key = key
            .filter(is_key)
            .ok_or_else(|| wrong("its key is not 16 bytes"))?;
        let (mut choice, mut token) = (Choice::All, None);
        let query = target.split_once('?').map_or("", |(_, query)| query);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("spans", value)) => {
                    choice = decode(value)
                        .as_deref()
                        .and_then(Choice::parse)
                        .ok_or_else(|| wrong("spans= is not `all`, `none` or `slow:…us`"))?;
                }
                Some(("token", value)) => {
                    token = Some(decode(value).ok_or_else(|| wrong("a %-sequence is wrong"))?);
                }
                _ => return Err(wrong("its address has a part that has no meaning here")),
            }
        }
        Ok(Self {
            choice,
            token,
            origin: origin.map(str::to_owned),
            key: key.to_owned(),
        })
    }

    /// Returns the answer that opens the connection.
    pub(super) fn answer(&self) -> String {
        const MAGIC: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
        let accept = base64(&sha1(format!("{}{MAGIC}", self.key).as_bytes()));
        format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
            Sec-WebSocket-Accept: {accept}\r\n\r\n"
        )
    }
}

/// Returns the answer that refuses, with the reason.
pub(super) fn refusal(reason: &str) -> String {
    format!(
        "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n{reason}\n"
    )
}

/// Returns the bytes before a binary message of a length, and how many of them there are.
pub(super) fn message_head(len: usize) -> ([u8; 10], usize) {
    let mut head = [0; 10];
    head[0] = 0x82;
    match len {
        0..=125 => {
            head[1] = len as u8;
            (head, 2)
        }
        126..=0xffff => {
            head[1] = 126;
            head[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            (head, 4)
        }
        _ => {
            head[1] = 127;
            head[2..10].copy_from_slice(&(len as u64).to_be_bytes());
            (head, 10)
        }
    }
}

/// Returns whether bytes of a client begin with a frame that ends the connection.
pub(super) fn is_close(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|first| first & 0x0f == 8)
}

/// Decodes `%41`. `None` if that is not what follows a `%`, or the result is no text.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let digits = rest
            .get(..2)
            .filter(|two| two.iter().all(u8::is_ascii_hexdigit))?;
        rest = &rest[2..];
        let digits = std::str::from_utf8(digits).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
    }
    String::from_utf8(bytes).ok()
}

/// The hash that the protocol proves its knowledge with. It protects nothing.
fn sha1(bytes: &[u8]) -> [u8; 20] {
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64), 0);
    if padded.len() - bytes.len() < 9 {
        padded.resize(padded.len() + 64, 0);
    }
    let bits = (bytes.len() as u64 * 8).to_be_bytes();
    let length_at = padded.len() - bits.len();
    padded[length_at..].copy_from_slice(&bits);
    let mut sums: [u32; 5] = [
        0x6745_2301,
        0xefcd_ab89,
        0x98ba_dcfe,
        0x1032_5476,
        0xc3d2_e1f0,
    ];
    for block in padded.chunks_exact(64) {
        let mut words = [0_u32; 80];
        for (word, four) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = four
                .iter()
                .fold(0, |word, byte| word << 8 | u32::from(*byte));
        }
        for at in 16..80 {
            let mixed = words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16];
            words[at] = mixed.rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = sums;
        for (at, word) in words.into_iter().enumerate() {
            let (mixed, constant) = match at {
                0..20 => (b & c | !b & d, 0x5a82_7999),
                20..40 => (b ^ c ^ d, 0x6ed9_eba1),
                40..60 => (b & c | b & d | c & d, 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6_u32),
            };
            let next = a
                .rotate_left(5)
                .wrapping_add(mixed)
                .wrapping_add(e)
                .wrapping_add(constant)
                .wrapping_add(word);
            (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);
        }
        for (sum, add) in sums.iter_mut().zip([a, b, c, d, e]) {
            *sum = sum.wrapping_add(add);
        }
    }
    let mut hash = [0; 20];
    for (four, sum) in hash.chunks_exact_mut(4).zip(sums) {
        four.copy_from_slice(&sum.to_be_bytes());
    }
    hash
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let mut word = [0; 3];
        word[..three.len()].copy_from_slice(three);
        let word = u32::from_be_bytes([0, word[0], word[1], word[2]]);
        for at in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= three.len() {
                char::from(letter)
            } else {
                '='
            });
        }
    }
    text
}

/// Reads any bytes as the request of a page.
#[doc(hidden)]
pub fn check_any_upgrade(bytes: &[u8]) {
    if let Ok(upgrade) = Upgrade::parse(bytes) {
        let answer = upgrade.answer();
        assert!(answer.ends_with("=\r\n\r\n"), "{answer}");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADERS: &str = "Host: localhost\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";

    fn parse(target: &str, headers: &str) -> Result<Upgrade, String> {
        let head = format!("GET {target} HTTP/1.1\r\n{headers}");
        Upgrade::parse(head.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_hash_and_the_text_are_the_published_ones() {
        let hex =
            |hash: [u8; 20]| -> String { hash.iter().map(|byte| format!("{byte:02x}")).collect() };
        // FIPS 180-1, and a million letters.
        assert_eq!(
            hex(sha1(b"abc")),
            "a9993e364706816aba3e25717850c26c9cd0d89d"
        );
        let long = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(hex(sha1(long)), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
        let million = vec![b'a'; 1_000_000];
        assert_eq!(
            hex(sha1(&million)),
            "34aa973cd4c4daa4f61eeb2bdbad27316534016f"
        );
        assert_eq!(hex(sha1(b"")), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        // RFC 4648.
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        // RFC 6455.
        let answer = parse("/", HEADERS).unwrap().answer();
        assert!(answer.contains("\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
    }

    #[test]
    fn the_address_says_what_a_page_wants() {
        let upgrade = parse("/?spans=slow:2000us&token=a%26b", HEADERS).unwrap();
        assert_eq!(
            upgrade.choice,
            Choice::Slow(std::time::Duration::from_millis(2))
        );
        assert_eq!(upgrade.token.as_deref(), Some("a&b"));
        assert_eq!(upgrade.origin, None);
        let from = format!("{HEADERS}origin: https://a.example\r\n");
        let upgrade = parse("/any", &from).unwrap();
        assert_eq!(upgrade.origin.as_deref(), Some("https://a.example"));
    }

    #[test]
    fn other_requests_are_refused_in_one_line() {
        let twice = format!("{HEADERS}Origin: a\r\nOrigin: b\r\n");
        for (target, headers, part) in [
            ("/", "Host: localhost\r\n", "no WebSocket of version 13"),
            (
                "/",
                "Upgrade: websocket\r\nSec-WebSocket-Version: 8\r\n",
                "version 13",
            ),
            (
                "/",
                "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
                "its key",
            ),
            ("/", "no colon\r\n", "no colon"),
            ("/", twice.as_str(), "twice"),
            ("/ /", HEADERS, "it is not `GET"),
            ("/?spans=some", HEADERS, "spans="),
            ("/?token=%4", HEADERS, "%-sequence"),
            ("/?dump", HEADERS, "no meaning"),
        ] {
            let error = parse(target, headers).unwrap_err();
            assert!(
                error.contains(part) && !error.contains('\n'),
                "{target}: {error}"
            );
        }
    }

    #[test]
    fn lengths_of_messages_are_as_published() {
        let head = |len| {
            let (head, bytes) = message_head(len);
            head[..bytes].to_vec()
        };
        assert_eq!(head(125), [0x82, 125]);
        assert_eq!(head(126), [0x82, 126, 0, 126]);
        assert_eq!(head(0xffff), [0x82, 126, 0xff, 0xff]);
        assert_eq!(head(0x1_0000), [0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
        assert!(is_close(&[0x88, 0x80]) && !is_close(&[0x82]) && !is_close(&[]));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            check_any_upgrade(&bytes);
        }

        #[test]
        fn near_requests_do_not_either(
            target in "/(\\?(spans|token)=[a-z0-9:%]{0,9}(&token=%[0-9a-f%]{0,4})?)?",
            line in "(Origin|Upgrade|Sec-WebSocket-(Key|Version)):? ?[a-z0-9=]{0,24}\r\n",
        ) {
            check_any_upgrade(format!("GET {target} HTTP/1.1\r\n{HEADERS}{line}").as_bytes());
        }
    }
}
