//! Pauses between attempts, and which errors are worth another one.

use std::error::Error as _;
use std::time::Duration;

/// Longest reason of a failure in a message.
const MAX_REASON_CHARS: usize = 200;

/// Pauses that double and vary at random, so that many machines do not come back together.
#[derive(Debug)]
pub(super) struct Backoff {
    first: Duration,
    next: Duration,
    longest: Duration,
}

impl Backoff {
    pub(super) fn new((first, longest): (Duration, Duration)) -> Self {
        Self {
            first,
            next: first,
            longest,
        }
    }

    /// Returns the next pause: from half of its length to all of it.
    pub(super) fn pause(&mut self) -> Duration {
        let pause = self.next.min(self.longest);
        self.next = pause.saturating_mul(2);
        pause.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    pub(super) fn reset(&mut self) {
        self.next = self.first;
    }
}

/// Returns whether the storage refuses for good: another attempt cannot help.
pub(super) fn is_permanent(error: &object_store::Error) -> bool {
    use object_store::Error;
    matches!(
        error,
        Error::NotFound { .. }
            | Error::InvalidPath { .. }
            | Error::NotSupported { .. }
            | Error::NotImplemented { .. }
            | Error::PermissionDenied { .. }
            | Error::Unauthenticated { .. }
            | Error::UnknownConfigurationKey { .. }
    )
}

/// Returns why a request failed, as a part of a line: the deepest cause, without addresses that may
/// have a signature in them.
pub(super) fn reason(error: &object_store::Error) -> String {
    use object_store::Error;
    let known = match error {
        Error::NotFound { .. } => "the bucket or the folder does not exist: ",
        Error::PermissionDenied { .. } => "the credentials do not allow it: ",
        Error::Unauthenticated { .. } => "the credentials are missing or wrong: ",
        _ => "",
    };
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        text = deeper.to_string();
        cause = deeper.source();
    }
    format!("{known}{}", cleaned(&text))
}

/// Returns a text as one short line without queries of URLs. Of an answer in XML, only the code
/// stays: the rest may repeat what was signed.
fn cleaned(text: &str) -> String {
    let code = text.split_once("<Code>");
    let code = code.and_then(|(_, rest)| rest.split_once("</Code>"));
    let plain = text.split('<').next().unwrap_or_default();
    let mut line = String::new();
    for word in plain.split_whitespace() {
        let word = match word.split_once('?') {
            Some((address, _)) if address.contains("://") => address,
            _ => word,
        };
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let line = line.trim_end_matches([':', ' ']);
    let line: String = line.chars().take(MAX_REASON_CHARS).collect();
    match code {
        Some((code, _)) if line.is_empty() => code.to_owned(),
        Some((code, _)) => format!("{line}: {code}"),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit_and_vary() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::new((ms(100), ms(300)));
        let mut pauses = std::collections::BTreeSet::new();
        for _ in 0..100 {
            for longest in [100, 200, 300, 300] {
                let pause = backoff.pause();
                assert!(
                    pause >= ms(longest) / 2 && pause <= ms(longest),
                    "{pause:?}"
                );
                pauses.insert(pause);
            }
            backoff.reset();
        }
        assert!(pauses.len() > 1);
        // They use all of the range.
        assert!(*pauses.first().unwrap() < ms(60) && *pauses.last().unwrap() > ms(290));
    }

    #[test]
    fn a_refusal_for_good_has_its_kind_and_its_deepest_cause() {
        use object_store::Error;
        let cause = || std::io::Error::other("the cause").into();
        let path = || "a/b".to_owned();
        for (error, expected, is_for_good) in [
            (
                Error::NotFound {
                    path: path(),
                    source: cause(),
                },
                "the bucket or the folder does not exist: the cause",
                true,
            ),
            (
                Error::PermissionDenied {
                    path: path(),
                    source: cause(),
                },
                "the credentials do not allow it: the cause",
                true,
            ),
            (
                Error::Unauthenticated {
                    path: path(),
                    source: cause(),
                },
                "the credentials are missing or wrong: the cause",
                true,
            ),
            (
                Error::Generic {
                    store: "any",
                    source: cause(),
                },
                "the cause",
                false,
            ),
        ] {
            assert_eq!(reason(&error), expected);
            assert_eq!(is_permanent(&error), is_for_good, "{expected}");
        }
    }

    #[test]
    fn reasons_have_no_signatures() {
        let refused = "Server returned 403: <?xml?><Error><Code>SignatureDoesNotMatch</Code>\
            <StringToSign>secret</StringToSign></Error>";
        assert_eq!(
            cleaned(refused),
            "Server returned 403: SignatureDoesNotMatch"
        );
        let address = "error for url (https://a.example/b?sig=secret)\nmore";
        assert_eq!(cleaned(address), "error for url (https://a.example/b more");
        // Only addresses have queries.
        assert_eq!(cleaned("why?because  <b>no</b>"), "why?because");
        assert_eq!(
            cleaned("refused: <Code>NoSuchKey</Code>"),
            "refused: NoSuchKey"
        );
        assert_eq!(cleaned("<a/><Code>SlowDown</Code><b/>"), "SlowDown");
        assert_eq!(cleaned(&"x".repeat(1000)).len(), MAX_REASON_CHARS);
    }
}
