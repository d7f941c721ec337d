//! An error of a macro, which the compiler reports at given tokens.

use std::fmt;

use crate::template::{fill, single, string};
use crate::tokens::{Span, TokenStream};

/// A mistake in the options or the item, and its position.
#[derive(Debug)]
pub(crate) struct Error {
    start: Span,
    end: Span,
    message: String,
}

/// The result of a parser.
pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Creates an error at one token.
    pub(crate) fn new(span: Span, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            start: span,
            end: span,
            message,
        }
    }

    /// Creates an error that covers `tokens`.
    pub(crate) fn spanned(tokens: TokenStream, message: impl Into<String>) -> Self {
        let mut spans = tokens.into_iter().map(|token| token.span());
        let start = spans.next().unwrap_or_else(Span::call_site);
        Self {
            start,
            end: spans.last().unwrap_or(start),
            message: message.into(),
        }
    }

    /// Returns `item` with the error beside it.
    ///
    /// The item is kept, so that a mistake causes one error, and not another one for every use of
    /// the item.
    pub(crate) fn beside(&self, mut item: TokenStream) -> TokenStream {
        item.extend(self.to_tokens());
        item
    }

    /// Returns `::core::compile_error! { "message" }`.
    ///
    /// The compiler reports it from the first token to the last one.
    fn to_tokens(&self) -> TokenStream {
        let message = single(string(&self.message, self.end));
        let mut tokens = fill(self.start, "::core::compile_error!", &[]);
        tokens.extend(fill(self.end, "{ $message }", &[("message", &message)]));
        tokens
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}
