//! `vor record`: the stream of a running program into a file.

use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use vor_capture::units;
use vor_recorder::sinks::live::Address;

use crate::command::Outcome;
use crate::command::failure::{Failure, warn};
use crate::command::live;

/// How long the program may take to send the end of the capture.
const END_BOUND: Duration = Duration::from_secs(5);

/// Records a running program into a file, until Ctrl-C or until the program ends.
///
/// The program listens: it was started with VOR_LISTEN=unix, or called `Config::listen`. The
/// capture begins when the command does. `vor view` and `vor tail` can follow the file meanwhile.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The program: its process number, `unix:PATH` or `tcp://HOST:PORT`.
    #[arg(value_name = "ADDRESS", value_parser = address)]
    address: Address,
    /// The file.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Ends after so many seconds.
    #[arg(long, value_name = "X", value_parser = seconds)]
    seconds: Option<Duration>,
    #[command(flatten)]
    spans: live::Spans,
}

/// Reads an address for `clap`.
pub(crate) fn address(text: &str) -> Result<Address, String> {
    Address::of_program(text).map_err(|error| error.to_string())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|s| (0.0..1e9).contains(s));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("`{text}` is not a number of seconds"))
}

pub(crate) fn run(args: &Args) -> Result<Outcome, Failure> {
    let mut stream = live::open(&args.address, args.spans.spans)?;
    let cannot = |error| Failure::in_file(&args.output, format!("cannot be written: {error}"));
    let mut file = File::create(&args.output).map_err(cannot)?;
    let is_interrupted = Arc::new(AtomicBool::new(false));
    catch_interrupt(&is_interrupted)
        .map_err(|error| Failure::Message(format!("Ctrl-C cannot be handled: {error}")))?;
    warn(&format!(
        "recording {} into {}; Ctrl-C ends",
        args.address,
        args.output.display()
    ));
    let begun = Instant::now();
    let mut ending: Option<Instant> = None;
    let mut chunk = vec![0; 64 << 10];
    let mut bytes = 0_u64;
    loop {
        let read = stream
            .read(&mut chunk)
            .map_err(|error| Failure::Message(format!("{}: {error}", args.address)))?;
        file.write_all(&chunk[..read]).map_err(cannot)?;
        bytes += read as u64;
        if stream.has_ended {
            break;
        }
        let is_over = args.seconds.is_some_and(|most| begun.elapsed() >= most);
        match ending {
            None if is_over || is_interrupted.load(Ordering::Relaxed) => {
                ending = Some(Instant::now());
                stream.connection.end();
            }
            Some(since) if since.elapsed() >= END_BOUND => {
                warn(&format!(
                    "{}: the program sent no end; the file has no index",
                    args.output.display()
                ));
                break;
            }
            _ => {}
        }
    }
    warn(&format!(
        "{}: {} in {}",
        args.output.display(),
        units::bytes(bytes),
        units::duration(begun.elapsed().as_nanos() as f64)
    ));
    Ok(Outcome::Success)
}

/// Has SIGINT and SIGTERM set a flag. A second one ends the command.
fn catch_interrupt(is_interrupted: &Arc<AtomicBool>) -> std::io::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(is_interrupted))?;
        signal_hook::flag::register(signal, Arc::clone(is_interrupted))?;
    }
    Ok(())
}
