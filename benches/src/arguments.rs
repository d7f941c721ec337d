//! Arguments of a bench: `-- --spans N`.

use std::env;

/// Returns the number behind an argument, or a default without the argument.
///
/// # Errors
///
/// No number follows the argument.
pub fn number(name: &str, default: u64) -> Result<u64, Box<dyn std::error::Error>> {
    let mut args = env::args().skip_while(|arg| arg != name);
    match (args.next(), args.next()) {
        (Some(_), Some(value)) => Ok(value.parse()?),
        (Some(_), None) => Err(format!("{name} needs a number").into()),
        _ => Ok(default),
    }
}
