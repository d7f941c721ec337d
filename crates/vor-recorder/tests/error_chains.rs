//! Errors as programs print them: the message, followed by each source. Every cause is printed
//! once.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

use std::error::Error as StdError;
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use vor_capture::Error;
use vor_capture::reader::{Capture, Reader};
use vor_recorder::sinks::capture::{CaptureOptions, CaptureSink};
use vor_recorder::sinks::chrome::ChromeTraceSink;
use vor_recorder::sinks::perfetto::PerfettoSink;

/// Returns the lines of the whole chain, and checks that no line repeats an earlier one.
fn chain(error: &(dyn StdError + 'static)) -> Vec<String> {
    let mut lines = vec![error.to_string()];
    let mut source = error.source();
    while let Some(next) = source {
        let line = next.to_string();
        assert!(
            lines.iter().all(|known| !known.contains(&line)),
            "`{line}` is repeated: {lines:?}"
        );
        lines.push(line);
        source = next.source();
    }
    lines
}

/// Checks that the chain names each of `parts` exactly once.
fn expect_once(error: &(dyn StdError + 'static), parts: &[&str]) {
    let shown = chain(error).join(" | ");
    for part in parts {
        assert_eq!(shown.matches(part).count(), 1, "`{part}` in `{shown}`");
    }
}

fn refusal<T>(result: Result<T, Error>) -> Error {
    result.err().unwrap()
}

#[test]
fn an_unwritable_path_is_named_once_with_its_cause() {
    let path = Path::new("/nonexistent/folder/trace");
    let cause = std::fs::File::create(path).unwrap_err().to_string();
    let parts = ["/nonexistent/folder/trace", cause.as_str()];
    let chrome = ChromeTraceSink { path: path.into() };
    expect_once(&refusal(chrome.build()), &parts);
    let perfetto = PerfettoSink::new(path);
    expect_once(&refusal(perfetto.build()), &parts);
    let capture = refusal(CaptureSink::create(path, CaptureOptions::default()));
    assert!(capture.is_io());
    expect_once(&capture, &parts);
}

#[test]
fn a_bad_capture_is_named_once_with_its_fault() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.pdf");
    std::fs::write(&path, "%PDF-1.7 and more than a header").unwrap();
    let parts = ["report.pdf", "%PDF"];
    let error = Capture::open(&path).unwrap_err();
    assert!(error.is_corrupt());
    expect_once(&error, &parts);
    // As `std::io::Error`, which the reader of vor 0.2.1 returns.
    expect_once(&Reader::open(&path).unwrap_err(), &parts);

    let missing = folder.path().join("missing.vor");
    let cause = std::fs::File::open(&missing).unwrap_err().to_string();
    let parts = ["missing.vor", cause.as_str()];
    expect_once(&Capture::open(&missing).unwrap_err(), &parts);
    expect_once(&Reader::open(&missing).unwrap_err(), &parts);
}

/// Like a sink of the program that returns an error of the system.
fn connect(address: std::net::SocketAddr) -> Result<TcpStream, Error> {
    Ok(TcpStream::connect(address)?)
}

#[test]
fn a_server_that_refuses_is_one_cause() {
    // A port without a listener.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let cause = TcpStream::connect(address).unwrap_err();
    let error = connect(address).unwrap_err();
    assert_eq!(error.io_kind(), Some(cause.kind()));
    expect_once(&error, &[&cause.to_string()]);
    // An error that is converted to `std::io::Error` and back keeps its text.
    let through = Error::from(std::io::Error::from(error));
    expect_once(&through, &[&cause.to_string()]);
}

#[cfg(feature = "pyroscope")]
#[test]
fn certificates_that_cannot_be_read_are_named_once() {
    use vor_recorder::sinks::pyroscope::PyroscopeSink;

    let path = Path::new("/nonexistent/root.pem");
    let cause = std::fs::File::open(path).unwrap_err().to_string();
    let mut sink = PyroscopeSink::new("https://localhost:4040");
    sink.certificates = Some(path.into());
    expect_once(
        &refusal(sink.build()),
        &["/nonexistent/root.pem", cause.as_str()],
    );
}
