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
        ErrorKind::InvalidSubcommand => format!(
            "unknown command `{}`; there are {}",
            found(ContextKind::InvalidSubcommand),
            super::names().join(", ")
        ),
        ErrorKind::MissingRequiredArgument => format!("{option} is missing; see --help"),
        ErrorKind::UnknownArgument if option.starts_with('-') => {
            format!("unknown option `{option}`; see --help")
        }
        ErrorKind::UnknownArgument => format!("unexpected argument `{option}`; see --help"),
        ErrorKind::InvalidValue if found(ContextKind::InvalidValue).is_empty() => {
            format!("{option} needs a value")
        }
        ErrorKind::InvalidValue => format!(
            "{option}: unknown value `{}`; choose one of {}",
            found(ContextKind::InvalidValue),
            found(ContextKind::ValidValue)
        ),
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

/// Returns a part of an error's context; several values are separated by commas.
fn text(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => Some(texts.join(", ")),
        _ => None,
    }
}
