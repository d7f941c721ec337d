//! An HTTP server on the loopback address that stores its requests, and answers in a given mode.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// The answer of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Answers with this status and reason, and with these headers.
    Status(&'static str, &'static str),
    /// Answers with these bytes, and closes the connection.
    Bytes(Vec<u8>),
    /// Reads the request and never answers.
    Stall,
    /// Closes the connection before it reads the request, which resets it.
    Reset,
}

pub const FINE: Mode = Mode::Status("200 OK", "");

#[derive(Clone, Debug, Default)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub query: BTreeMap<String, String>,
    /// By name in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
    /// Whether the answer was a success.
    pub was_accepted: bool,
}

#[derive(Debug, Default)]
struct Shared {
    requests: Vec<Request>,
    /// Number of attempted requests, including those that were not read.
    attempts: u64,
    /// Connections that stay open for ever.
    stalled: Vec<TcpStream>,
}

#[derive(Clone, Debug)]
pub struct Server {
    pub url: String,
    mode: Arc<Mutex<Mode>>,
    shared: Arc<Mutex<Shared>>,
}

impl Server {
    pub fn start(mode: Mode) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            url: format!("http://{}", listener.local_addr().unwrap()),
            mode: Arc::new(Mutex::new(mode)),
            shared: Arc::default(),
        };
        let acceptor = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let server = acceptor.clone();
                // A client that disconnects is not a failure of the server.
                std::thread::spawn(move || server.serve(stream.unwrap()).unwrap_or_default());
            }
        });
        server
    }

    pub fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }

    pub fn requests(&self) -> Vec<Request> {
        self.shared.lock().unwrap().requests.clone()
    }

    pub fn accepted(&self) -> Vec<Request> {
        let mut requests = self.requests();
        requests.retain(|request| request.was_accepted);
        requests
    }

    pub fn attempts(&self) -> u64 {
        self.shared.lock().unwrap().attempts
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        loop {
            let mut peeked = [0];
            if stream.peek(&mut peeked)? == 0 {
                return Ok(());
            }
            let mode = self.mode.lock().unwrap().clone();
            self.shared.lock().unwrap().attempts += 1;
            if mode == Mode::Reset {
                return Ok(());
            }
            let mut request = read(&mut stream)?;
            if let Mode::Bytes(bytes) = mode {
                self.shared.lock().unwrap().requests.push(request);
                return stream.write_all(&bytes);
            }
            let Mode::Status(status, headers) = mode else {
                let mut shared = self.shared.lock().unwrap();
                shared.requests.push(request);
                shared.stalled.push(stream);
                return Ok(());
            };
            request.was_accepted = status.starts_with("200");
            self.shared.lock().unwrap().requests.push(request);
            let answer = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: 5\r\n\r\nsaid.");
            stream.write_all(answer.as_bytes())?;
        }
    }
}

/// Answers that break the protocol, or promise what does not come.
pub fn broken_answers() -> Vec<Vec<u8>> {
    let head = |rest: &str| format!("HTTP/1.1 200 OK\r\n{rest}\r\n\r\n").into_bytes();
    let mut answers = vec![
        b"said.".to_vec(),
        b"HTTP/9.9 200 OK\r\n\r\n".to_vec(),
        b"HTTP/1.1 -1 \xff\xfe\r\n\r\n".to_vec(),
        b"HTTP/1.1 99999 OK\r\n\r\n".to_vec(),
        b"HTTP/1.1 200 OK\r\nContent-Le".to_vec(),
        b"\0".repeat(70_000),
        head("Content-Length: -5"),
        head("Content-Length: 5\r\nContent-Length: 7"),
        head("Content-Length: 18446744073709551616"),
        head("Content-Length: 1000000000000"),
        head("Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"),
        head(&format!("X: {}", "x".repeat(1 << 20))),
        head(&"X: x\r\n".repeat(20_000)),
        b"HTTP/1.1 307 Elsewhere\r\nLocation: /\r\nContent-Length: 0\r\n\r\n".to_vec(),
        b"HTTP/1.1 429 Wait\r\nRetry-After: 99999999999999999999\r\nContent-Length: 0\r\n\r\n"
            .to_vec(),
    ];
    // The client may have closed the connection by then, so the longest comes last.
    answers.push(b"HTTP/1.1 200 ".repeat(1 << 18));
    answers
}

fn read(stream: &mut TcpStream) -> io::Result<Request> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("a head of text");
    let mut lines = head.split("\r\n");
    let mut words = lines.next().expect("a request line").split(' ');
    let mut request = Request {
        method: words.next().expect("a method").to_owned(),
        ..Request::default()
    };
    let target = words.next().expect("a target");
    assert_eq!(words.next(), Some("HTTP/1.1"));
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    request.path = path.to_owned();
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        request.query.insert(name.to_owned(), decoded(value));
    }
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        request
            .headers
            .insert(name.to_lowercase(), value.trim().to_owned());
    }
    if request.headers.contains_key("transfer-encoding") {
        panic!("a request needs a Content-Length, so that servers know its size in advance");
    }
    let length = request
        .headers
        .get("content-length")
        .map_or(0, |length| length.parse().unwrap());
    request.body = vec![0; length];
    stream.read_exact(&mut request.body)?;
    Ok(request)
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            b'+' => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).unwrap()
}

/// Parses a form: the file name and the content of each part, by its name.
pub fn form(request: &Request) -> BTreeMap<String, (String, Vec<u8>)> {
    let kind = &request.headers["content-type"];
    let boundary = kind
        .strip_prefix("multipart/form-data; boundary=")
        .expect("a form");
    let delimiter = format!("\r\n--{boundary}");
    // The first delimiter is at the beginning, without a preceding line end.
    let body = [b"\r\n", request.body.as_slice()].concat();
    let mut ends = Vec::new();
    for at in 0..body.len() {
        if body[at..].starts_with(delimiter.as_bytes()) {
            ends.push(at);
        }
    }
    assert_eq!(&body[ends[ends.len() - 1] + delimiter.len()..], b"--\r\n");
    let mut parts = BTreeMap::new();
    for pair in ends.windows(2) {
        let part = &body[pair[0] + delimiter.len() + 2..pair[1]];
        let head_end = part
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .unwrap();
        let head = std::str::from_utf8(&part[..head_end]).unwrap();
        let quoted = |name: &str| {
            let from = head.split_once(&format!("; {name}=\"")).expect(name).1;
            from.split_once('"').unwrap().0.to_owned()
        };
        assert!(
            head.starts_with("Content-Disposition: form-data;"),
            "{head}"
        );
        let content = part[head_end + 4..].to_vec();
        assert!(
            parts
                .insert(quoted("name"), (quoted("filename"), content))
                .is_none()
        );
    }
    parts
}
