//! Pages in browsers: a WebSocket for those of an allowed origin, and nothing for others.

use std::io::{Read, Write};
use std::net::TcpStream;

use vor_fixtures::own_process;
use vor_recorder::drain::{flush, frame_mark};
use vor_recorder::profile_scope;
use vor_recorder::setup::Config;
use vor_recorder::sinks::live::{Listen, Token, listening};

use crate::support::*;

const TOKEN: &str = "0123456789abcdef";
const ORIGIN: &str = "https://viewer.example";

/// Asks for a WebSocket, and returns the head of the answer.
fn upgrade(query: &str, origin: Option<&str>) -> (String, TcpStream) {
    let address = listening().unwrap();
    let mut stream = TcpStream::connect(address.strip_prefix("tcp://").unwrap()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let origin = origin
        .map(|origin| format!("Origin: {origin}\r\n"))
        .unwrap_or_default();
    let request = format!(
        "GET /?{query} HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\n\
        Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n{origin}\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nCookie: {}\r\n\r\n",
        "x".repeat(2000)
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).unwrap() == 0 {
            break;
        }
        head.push(byte[0]);
    }
    (String::from_utf8(head).unwrap(), stream)
}

/// Reads messages up to the frame that closes, and joins them.
fn messages(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let mut head = [0; 2];
        stream.read_exact(&mut head).unwrap();
        if head[0] == 0x88 {
            return all;
        }
        assert_eq!(head[0], 0x82, "a whole binary message");
        let len = match head[1] {
            126 => {
                let mut len = [0; 2];
                stream.read_exact(&mut len).unwrap();
                u64::from(u16::from_be_bytes(len))
            }
            127 => {
                let mut len = [0; 8];
                stream.read_exact(&mut len).unwrap();
                u64::from_be_bytes(len)
            }
            short => u64::from(short),
        };
        let before = all.len();
        all.resize(before + len as usize, 0);
        stream.read_exact(&mut all[before..]).unwrap();
    }
}

#[test]
fn a_page_of_an_allowed_origin_gets_the_capture() {
    own_process!();
    let listen: Listen = "127.0.0.1:0".parse().unwrap();
    let listen = listen.token(Token::new(TOKEN).unwrap()).origin(ORIGIN);
    Config::new().listen(listen).enable();

    let token = format!("token={TOKEN}");
    for (query, origin, reason) in [
        (
            token.as_str(),
            Some("https://evil.example"),
            "VOR_LISTEN_ORIGIN=",
        ),
        (&token, Some("null"), "VOR_LISTEN_ORIGIN="),
        (
            &token,
            Some("https://viewer.example.evil"),
            "VOR_LISTEN_ORIGIN=",
        ),
        ("", Some(ORIGIN), "wants a token"),
        ("token=0123456789abcdeF", Some(ORIGIN), "the token is wrong"),
        ("dump=1", None, "no meaning"),
    ] {
        let (head, mut stream) = upgrade(query, origin);
        assert!(head.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{head}");
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        assert!(rest.contains(reason), "{rest}");
    }

    for origin in [Some(ORIGIN), None] {
        let (head, mut stream) = upgrade(&token, origin);
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
        // The capture begins with its first byte.
        assert_eq!(stream.peek(&mut [0]).unwrap(), 1);
        for _ in 0..10 {
            for _ in 0..1000 {
                profile_scope!("work");
            }
            frame_mark();
        }
        flush();
        // The frame with which a browser closes: masked, with the code 1000.
        stream
            .write_all(&[0x88, 0x82, 1, 2, 3, 4, 2, 0xea])
            .unwrap();
        let received = read(&messages(&mut stream));
        assert!(received.is_closed && received.losses.is_empty());
        assert_eq!((received.span_count(), received.frames.len()), (10_000, 10));
    }
}
