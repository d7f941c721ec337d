//! Tests in processes of their own.
//!
//! The recorder, the allocator and signal handlers belong to the process. A test that uses one of
//! them starts with [`own_process!`](crate::own_process), so that any number of such tests can be
//! in one program. A test that checks how a process ends starts children with [`child`], each with
//! a role.

use std::io::Read;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Set in the environment of every child.
const CHILD: &str = "VOR_TEST_CHILD";
/// Names the role that a child plays.
const ROLE: &str = "VOR_TEST_ROLE";
/// Starts programs where they cannot start themselves, for example under an emulator of another
/// processor. The value is the words of a command, separated by spaces.
const RUNNER: &str = "VOR_TEST_RUNNER";

/// A child that takes longer hangs. Emulators and sanitizers are slow.
const LIMIT: Duration = Duration::from_secs(600);
/// How long the output of a killed child may take to arrive.
const KILLED_LIMIT: Duration = Duration::from_secs(10);

/// Runs the rest of a test in a process of its own. It is the first statement of the test.
#[macro_export]
macro_rules! own_process {
    () => {
        if !$crate::process::is_child() {
            return $crate::process::run_alone($crate::test_name!());
        }
    };
}

/// Lets a test program run four times as many tests at a time as there are processors, unless
/// `RUST_TEST_THREADS` sets the number. It stands in the main file of a program whose tests mostly
/// wait for their children.
#[macro_export]
macro_rules! tests_wait {
    () => {
        #[cfg(target_os = "linux")]
        #[expect(
            unsafe_code,
            reason = "the harness reads its settings before any code of a test"
        )]
        #[used]
        // SAFETY: the C library calls each function of this section once, before `main`.
        #[unsafe(link_section = ".init_array")]
        static BEFORE_MAIN: extern "C" fn() = $crate::process::run_four_times_as_many;
    };
}

#[doc(hidden)]
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "libtest has no other setting in a program")]
pub extern "C" fn run_four_times_as_many() {
    const THREADS: &str = "RUST_TEST_THREADS";
    if std::env::var_os(THREADS).is_none()
        && let Ok(processors) = std::thread::available_parallelism()
    {
        // SAFETY: no other thread exists before `main`.
        unsafe { std::env::set_var(THREADS, (4 * processors.get()).to_string()) };
    }
}

/// Returns the harness's name of the surrounding test, or of the named test in the same module.
#[macro_export]
macro_rules! test_name {
    () => {{
        fn here() {}
        $crate::process::name_of(::std::any::type_name_of_val(&here))
    }};
    ($test:literal) => {
        &*$crate::process::name_in(module_path!(), $test)
    };
}

#[doc(hidden)]
pub fn name_of(here: &'static str) -> &'static str {
    let function = here.strip_suffix("::here").expect("a path of `here`");
    let test = function.trim_end_matches("::{{closure}}");
    test.split_once("::").expect("a test is in a crate").1
}

#[doc(hidden)]
pub fn name_in(module: &str, test: &str) -> String {
    match module.split_once("::") {
        Some((_, module)) => format!("{module}::{test}"),
        None => test.to_owned(),
    }
}

/// Returns whether another test started this process.
pub fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Runs a test of this program in a child, and fails unless it passes there.
pub fn run_alone(test: &str) {
    let output = run(&mut again(test));
    let (stdout, stderr) = text(&output);
    assert!(
        output.status.success() && stdout.contains("1 passed; 0 failed"),
        "{test}, in a process of its own: {}\n{stdout}{stderr}",
        output.status
    );
    print!("{stdout}");
    eprint!("{stderr}");
    crate::skip::show_those_in(&stderr);
}

/// Returns the command that runs a test of this program in a child with this environment.
pub fn again(test: &str) -> Command {
    let mut command = this_program();
    command.args([
        test,
        "--exact",
        "--include-ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    command.env(CHILD, "1").stdin(Stdio::null());
    command
}

/// Returns whether an emulator of another processor runs the tests.
#[must_use]
pub fn is_emulated() -> bool {
    std::env::var_os(RUNNER).is_some()
}

/// Returns the command that starts this program.
pub fn this_program() -> Command {
    let program = std::env::current_exe().expect("a test has a path");
    let runner = std::env::var(RUNNER).unwrap_or_default();
    let mut words = runner.split_whitespace();
    match words.next() {
        Some(first) => {
            let mut command = Command::new(first);
            command.args(words).arg(program);
            command
        }
        None => Command::new(program),
    }
}

/// Returns the command that runs a test of this program in a child with a role. The child inherits
/// no variable of vor, NVTX or CUDA.
pub fn child(test: &str, role: &str) -> Command {
    let mut command = again(test);
    for (name, _) in std::env::vars_os() {
        let shown = name.to_string_lossy();
        let is_ours = ["VOR_", "NVTX_", "CUDA_"]
            .iter()
            .any(|prefix| shown.starts_with(prefix));
        if is_ours && shown != CHILD && shown != RUNNER {
            command.env_remove(name);
        }
    }
    command.env(ROLE, role).env("RUST_BACKTRACE", "0");
    command
}

/// Returns the role of this process, `None` in a parent.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Runs a command to its end. A command that hangs is killed, and the test fails.
pub fn run(command: &mut Command) -> Output {
    run_within(LIMIT, command)
}

fn run_within(limit: Duration, command: &mut Command) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("a child can be started");
    let stdout = read(child.stdout.take().expect("it is piped"));
    let stderr = read(child.stderr.take().expect("it is piped"));
    // The outputs of the child end with it, so no polling is needed.
    let both = |limit| {
        Some((
            stdout.recv_timeout(limit).ok()?,
            stderr.recv_timeout(limit).ok()?,
        ))
    };
    let Some((stdout, stderr)) = both(limit) else {
        let _ = child.kill();
        let (stdout, stderr) = both(KILLED_LIMIT).unwrap_or_default();
        panic!(
            "{command:?} has not ended after {limit:?}\n{}{}",
            String::from_utf8_lossy(&stdout),
            String::from_utf8_lossy(&stderr)
        );
    };
    Output {
        status: child.wait().expect("a child can be waited for"),
        stdout,
        stderr,
    }
}

/// Runs a command to its end, and fails unless it succeeds.
pub fn run_to_success(command: &mut Command) -> Output {
    let output = run(command);
    assert!(output.status.success(), "{output:?}");
    output
}

fn read(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("a pipe can be read");
        // The receiver may no longer wait.
        let _ = sender.send(bytes);
    });
    receiver
}

fn text(output: &Output) -> (String, String) {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Returns the lines that vor itself wrote to stderr.
pub fn vor_lines(output: &Output) -> Vec<String> {
    let (_, stderr) = text(output);
    let of_vor = stderr.lines().filter(|line| line.starts_with("vor: "));
    of_vor.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    /// Returns the message with which `work` fails.
    fn failure(work: fn()) -> String {
        *catch_unwind(work).unwrap_err().downcast().unwrap()
    }

    #[test]
    fn a_test_runs_in_a_child_and_passes() {
        own_process!();
        assert!(is_child() && role().is_none());
        assert_eq!(
            test_name!(),
            test_name!("a_test_runs_in_a_child_and_passes")
        );
    }

    #[test]
    fn a_failure_in_a_child_fails_the_test_with_its_output() {
        if is_child() {
            println!("to stdout");
            panic!("to stderr");
        }
        let message = failure(|| {
            run_alone(test_name!(
                "a_failure_in_a_child_fails_the_test_with_its_output"
            ));
        });
        assert!(
            message.contains("to stdout") && message.contains("to stderr"),
            "{message}"
        );
    }

    #[test]
    fn a_child_that_runs_no_test_fails() {
        let message = failure(|| run_alone("process::tests::no_such_test"));
        assert!(message.contains("0 passed"), "{message}");
    }

    #[test]
    fn a_child_that_hangs_is_killed() {
        if role().is_some() {
            println!("started");
            loop {
                std::thread::park();
            }
        }
        let message = failure(|| {
            let test = test_name!("a_child_that_hangs_is_killed");
            run_within(Duration::from_secs(1), &mut child(test, "hangs"));
        });
        assert!(message.contains("has not ended"), "{message}");
    }
}

/// Ends a child with the test.
#[derive(Debug)]
pub struct Ended(pub std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
