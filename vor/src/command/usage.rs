//! Reports mistakes in the arguments as one line, like all other errors.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::command::failure::warn;

/// Reports a mistake in the arguments as one line, or prints the requested help; returns the exit
/// code.
pub(crate) fn report(error: &clap::Error) -> u8 {
    let is_help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    if is_help {
        // Printing fails only if the reader closed the pipe, which is no error.
        drop(error.print());
        return if error.use_stderr() { 2 } else { 0 };
    }
    warn(&line(error));
    2
}

fn line(error: &clap::Error) -> String {
    let found = |kind| text(error, kind).unwrap_or_default();
    let option = found(ContextKind::InvalidArg);
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let name = found(ContextKind::InvalidSubcommand);
            let known = super::names();
            let suggestion = match suggested(&name, &known) {
                Some(known) => format!("did you mean `{known}`? There are"),
                None => "there are".to_owned(),
            };
            format!(
                "unknown command `{name}`; {suggestion} {}",
                known.join(", ")
            )
        }
        ErrorKind::MissingRequiredArgument => format!("{option} is missing; see --help"),
        ErrorKind::UnknownArgument if option.starts_with('-') => {
            match text(error, ContextKind::SuggestedArg) {
                Some(known) => format!("unknown option `{option}`; did you mean `{known}`?"),
                None => format!("unknown option `{option}`; see --help"),
            }
        }
        ErrorKind::UnknownArgument => format!("unexpected argument `{option}`; see --help"),
        ErrorKind::InvalidValue if found(ContextKind::InvalidValue).is_empty() => {
            format!("{option} needs a value")
        }
        ErrorKind::InvalidValue => {
            let value = found(ContextKind::InvalidValue);
            if value == "parquet" && option.starts_with("--to") {
                return format!("{option}: {}", super::WITHOUT_PARQUET);
            }
            format!(
                "{option}: unknown value `{value}`; choose one of {}",
                found(ContextKind::ValidValue)
            )
        }
        ErrorKind::ValueValidation => {
            // The parser of the value explains the mistake.
            let reason = std::error::Error::source(error).map(ToString::to_string);
            format!("{option}: {}", reason.unwrap_or_default())
        }
        // For all other kinds: the first paragraph of clap's message is one sentence.
        _ => {
            let message = error.render().to_string();
            let first = message.split("\n\n").next().unwrap_or_default();
            let words: Vec<&str> = first.split_whitespace().collect();
            let line = words.join(" ");
            line.strip_prefix("error: ").unwrap_or(&line).to_owned()
        }
    }
}

/// Returns the known name that a mistyped one most likely means: one that contains it, or one with
/// nearly the same letters.
pub(crate) fn suggested<'a>(name: &str, known: &'a [String]) -> Option<&'a str> {
    let name = name.trim_matches('*').to_lowercase();
    if name.is_empty() {
        return None;
    }
    let likeness = |known: &&String| {
        let known = known.to_lowercase();
        match known.contains(&name) {
            true => 1.0,
            false => strsim::jaro_winkler(&known, &name),
        }
    };
    let best = known
        .iter()
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(&best) >= 0.8).then_some(best)
}

/// Returns a part of an error's context; several values are separated by commas.
fn text(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => Some(texts.join(", ")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_nearly_the_same_letters_are_suggested() {
        let known = ["render", "decode frame", "upload"].map(str::to_owned);
        let suggested = |name| suggested(name, &known);
        assert_eq!(suggested("rendr"), Some("render"));
        assert_eq!(suggested("Render"), Some("render"));
        assert_eq!(suggested("frame"), Some("decode frame"));
        assert_eq!(suggested("uplaod*"), Some("upload"));
        assert_eq!(suggested("*"), None);
        assert_eq!(suggested("xyz"), None);
    }
}
