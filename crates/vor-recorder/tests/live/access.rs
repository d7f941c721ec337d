//! The rights of clients, and the refusals of the others.

use std::os::unix::fs::PermissionsExt;

use vor_fixtures::process::vor_lines;
use vor_fixtures::{own_process, process, test_name};
use vor_recorder::setup::{Config, enable};
use vor_recorder::sinks::live::{Choice, Listen, Question, Token, listening};

use crate::support::*;

fn token(text: &str) -> Token {
    Token::new(text).unwrap()
}

#[test]
fn a_token_is_required_where_one_is_set() {
    own_process!();
    let right = token("0123456789abcdef");
    let listen: Listen = "127.0.0.1:0".parse().unwrap();
    Config::new().listen(listen.token(right.clone())).enable();
    let address = listening().unwrap();
    let refused = |token: Option<&Token>| {
        let error = client_at(&address, Choice::All, token).unwrap_err();
        error.to_string()
    };
    let missing = refused(None);
    assert!(
        missing.contains("wants a token; set VOR_LISTEN_TOKEN"),
        "{missing}"
    );
    for wrong in [
        "0123456789abcdeg",
        "0123456789abcdef0123456789abcdef",
        "fedcba9876543210",
    ] {
        let error = refused(Some(&token(wrong)));
        assert!(error.ends_with("the token is wrong"), "{error}");
    }
    assert!(client_at(&address, Choice::All, Some(&right)).is_ok());
}

#[test]
fn control_needs_a_token_or_the_same_user() {
    own_process!();
    Config::new()
        .listen("127.0.0.1:0".parse().unwrap())
        .enable();
    let address = vor_recorder::sinks::live::Address::of_program(&listening().unwrap()).unwrap();
    let ask = |question| vor_recorder::sinks::live::ask(&address, &question, None);
    assert!(ask(Question::Status).unwrap().starts_with("vor: "));
    assert!(ask(Question::Scopes(None)).unwrap().starts_with("rules: "));
    for question in [Question::Dump, Question::Scopes(Some("*=off".into()))] {
        let error = ask(question).unwrap_err().to_string();
        assert!(error.contains("control needs a token"), "{error}");
    }
}

#[test]
fn the_socket_is_for_this_user_only() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let socket = listen(folder.path());
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let error = ask(&socket, &Question::Dump).unwrap_err();
    assert!(error.contains("no records are kept in memory"), "{error}");
    // Nothing else is left of the folder in which it was made.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// Starts a child with these variables, and returns where it listens and its lines.
fn child_with(test: &str, variables: &[(&str, &str)]) -> (String, Vec<String>) {
    let mut child = process::child(test, "listens");
    child.envs(variables.iter().copied());
    let output = process::run_to_success(&mut child);
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let at = stdout
        .lines()
        .find_map(|line| line.strip_prefix("listens: "));
    (at.unwrap().to_owned(), vor_lines(&output))
}

#[test]
fn an_address_that_others_reach_needs_a_token() {
    if process::role().is_some() {
        enable();
        println!("\nlistens: {:?}", listening());
        return;
    }
    let test = test_name!();
    let listens = |variables: &[(&str, &str)]| child_with(test, variables);
    let nowhere = "None";
    for open in ["0.0.0.0:0", "[::]:0"] {
        let (at, lines) = listens(&[("VOR_LISTEN", open)]);
        assert_eq!((at.as_str(), lines.len()), (nowhere, 1), "{lines:?}");
        assert!(lines[0].contains("set VOR_LISTEN_TOKEN"), "{lines:?}");
    }
    let (at, _) = listens(&[
        ("VOR_LISTEN", "0.0.0.0:0"),
        ("VOR_LISTEN_TOKEN", "0123456789abcdef"),
    ]);
    assert!(at.starts_with("Some(\"tcp://0.0.0.0:"), "{at}");
    let (at, lines) = listens(&[("VOR_LISTEN", "127.0.0.1:0"), ("VOR_LISTEN_TOKEN", "short")]);
    assert_eq!((at.as_str(), lines.len()), (nowhere, 1), "{lines:?}");
    assert!(lines[0].contains("a token has 16 to 256"), "{lines:?}");
    let (at, lines) = listens(&[("VOR_LISTEN", "nonsense")]);
    assert_eq!(at, nowhere);
    assert_eq!(
        lines,
        [
            "vor: VOR_LISTEN: `nonsense`: there is no port; an address is `unix:PATH` or \
          `HOST:PORT`; the program does not listen"
        ]
    );
    let folder = tempfile::tempdir().unwrap();
    let session = folder.path().to_str().unwrap();
    let (at, lines) = listens(&[("VOR_LISTEN", "1"), ("XDG_RUNTIME_DIR", session)]);
    assert!(
        at.starts_with(&format!("Some(\"unix:{session}/vor-")),
        "{at} {lines:?}"
    );
    assert_eq!(
        std::fs::read_dir(session).unwrap().count(),
        0,
        "it is removed at the end"
    );
}

#[test]
fn a_socket_of_an_ended_program_is_replaced_and_no_other_file_is() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "it is stale");
    let socket = listen(folder.path());
    assert_eq!(clients(&socket), 0);

    // Another program listens there, and a file is no socket.
    let test = test_name!();
    let _ = test;
    let file = folder.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    for (path, reason) in [(&path, "another program listens"), (&file, "is no socket")] {
        let text = format!("unix:{}", path.display());
        let mut child = process::child(
            "access::an_address_that_others_reach_needs_a_token",
            "listens",
        );
        let output = process::run_to_success(child.env("VOR_LISTEN", text));
        let lines = vor_lines(&output);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains(reason), "{lines:?}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
    assert_eq!(clients(&socket), 0);
}
