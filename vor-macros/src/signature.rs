//! The signature of a function.

use crate::cursor::Cursor;
use crate::error::Result;
use crate::item;
use crate::tokens::{Delimiter, Group, Ident, TokenStream};

/// The parts of a signature that macros use.
pub(crate) struct Signature {
    pub is_const: bool,
    pub is_async: bool,
    pub name: Ident,
    /// The parentheses with the parameters.
    pub parameters: Group,
    /// The type after `->`.
    pub output: Option<TokenStream>,
}

impl Signature {
    /// Reads a signature, without attributes and visibility.
    ///
    /// # Errors
    ///
    /// Points to the token in place of which `fn`, the name or the parameters should be.
    pub(crate) fn parse(mut cursor: Cursor<'_>) -> Result<Self> {
        let (mut is_const, mut is_async) = (false, false);
        loop {
            match cursor.word(0).as_deref() {
                Some("const") => is_const = true,
                Some("async") => is_async = true,
                Some("default" | "unsafe" | "extern") => {}
                // The ABI of `extern "C"`.
                _ if cursor.take_literal().is_some() => continue,
                _ => break,
            }
            cursor.next();
        }
        if !cursor.take_word("fn") {
            return Err(cursor.error("expected `fn`"));
        }
        let Some(name) = cursor.take_ident() else {
            return Err(cursor.error("expected identifier"));
        };
        if cursor.is_punct(0, '<') {
            cursor.skip_angles();
        }
        let Some(parameters) = cursor.take_group(Delimiter::Parenthesis) else {
            return Err(cursor.error("expected parentheses"));
        };
        let output = cursor.take_arrow().then(|| {
            let start = cursor;
            cursor.skip_until(|at| item::is_end(at) || at.is_word(0, "where"));
            start.until(cursor)
        });
        Ok(Self {
            is_const,
            is_async,
            name: name.clone(),
            parameters: parameters.clone(),
            output,
        })
    }
}
