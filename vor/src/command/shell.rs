//! `vor completions` and `vor man`: the command line as shells and `man` read it.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::command::failure::Failure;
use crate::command::patterns::unknown;
use crate::command::{Cli, Outcome, names};

/// Prints completions of this command for a shell.
///
/// For bash: `vor completions bash > ~/.local/share/bash-completion/completions/vor`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Prints a manual page: `vor man stats | man -l -`.
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// The command; without it, the page of `vor` itself.
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

pub(crate) fn write_completions(
    args: &CompletionsArgs,
    out: &mut impl Write,
) -> Result<Outcome, Failure> {
    // The generator panics where it cannot write.
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "vor", &mut text);
    out.write_all(&text).map_err(Failure::output)?;
    Ok(Outcome::Success)
}

pub(crate) fn write_man(args: &ManArgs, out: &mut impl Write) -> Result<Outcome, Failure> {
    let mut command = Cli::command();
    command.build();
    if let Some(name) = &args.command {
        let Some(found) = command.find_subcommand(name) else {
            return Err(Failure::Message(unknown("command", name, &names())));
        };
        command = found.clone().display_name(format!("vor-{name}"));
    }
    let page = clap_mangen::Man::new(command);
    page.render(out).map_err(Failure::output)?;
    Ok(Outcome::Success)
}
