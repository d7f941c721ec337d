//! A position in tokens, with look-ahead.
//!
//! A metavariable of `macro_rules!`, such as `$x:expr`, arrives as a group without delimiters. A
//! [`Buffer`] holds the tokens of one level, in which each such group is opened and its two edges
//! are marked. A [`Cursor`] passes the edges when it reads a single token. It skips such a group as
//! a whole when it searches for the end of a type or an expression, and [`Cursor::until`] returns
//! the group as it was.
//!
//! The tokens `<` and `>` form no group, so [`Cursor::skip_angles`] counts them.

use crate::error::Error;
use crate::tokens::{
    Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree,
};

/// The tokens of one level.
pub(crate) struct Buffer {
    entries: Vec<Entry>,
    /// The position behind the last token.
    end: Span,
}

enum Entry {
    /// A token, which is no group without delimiters.
    Token(TokenTree),
    /// The start of a group without delimiters, and the number of entries up to its end.
    Open(Group, usize),
    /// The end of a group without delimiters.
    Close,
}

/// A position in a [`Buffer`].
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    entries: &'a [Entry],
    end: Span,
}

/// A token, or a whole group without delimiters.
pub(crate) enum Atom<'a> {
    Token(&'a TokenTree),
    Undelimited(&'a Group),
}

impl Buffer {
    pub(crate) fn new(tokens: TokenStream) -> Self {
        let mut entries = Vec::new();
        open(tokens, &mut entries);
        let end = Span::call_site();
        Self { entries, end }
    }

    /// Returns the content of `group`.
    pub(crate) fn of(group: &Group) -> Self {
        let end = group.span_close();
        Self {
            end,
            ..Self::new(group.stream())
        }
    }

    pub(crate) fn start(&self) -> Cursor<'_> {
        Cursor {
            entries: &self.entries,
            end: self.end,
        }
    }
}

/// Appends `tokens` to `entries`, with the content of groups without delimiters.
fn open(tokens: TokenStream, entries: &mut Vec<Entry>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
                let mut content = Vec::new();
                open(group.stream(), &mut content);
                entries.push(Entry::Open(group, content.len() + 2));
                entries.append(&mut content);
                entries.push(Entry::Close);
            }
            token => entries.push(Entry::Token(token)),
        }
    }
}

impl<'a> Cursor<'a> {
    /// Returns the tokens that follow.
    fn tokens(self) -> impl Iterator<Item = &'a TokenTree> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Token(token) => Some(token),
            Entry::Open(..) | Entry::Close => None,
        })
    }

    pub(crate) fn is_empty(self) -> bool {
        self.peek(0).is_none()
    }

    /// Returns the token after `skipped` others.
    pub(crate) fn peek(self, skipped: usize) -> Option<&'a TokenTree> {
        self.tokens().nth(skipped)
    }

    /// Returns whether the token after `skipped` others is the character `character`.
    pub(crate) fn is_punct(self, skipped: usize, character: char) -> bool {
        matches!(self.peek(skipped), Some(TokenTree::Punct(punct)) if punct.as_char() == character)
    }

    /// Returns whether the token after `skipped` others is `character`, without a space after it.
    fn is_joint(self, skipped: usize, character: char) -> bool {
        matches!(self.peek(skipped), Some(TokenTree::Punct(punct))
            if punct.as_char() == character && punct.spacing() == Spacing::Joint)
    }

    /// Returns whether the token after `skipped` others is the first of `::`.
    pub(crate) fn is_path_separator(self, skipped: usize) -> bool {
        self.is_joint(skipped, ':') && self.is_punct(skipped + 1, ':')
    }

    /// Returns the identifier or keyword after `skipped` other tokens.
    pub(crate) fn word(self, skipped: usize) -> Option<String> {
        match self.peek(skipped) {
            Some(TokenTree::Ident(word)) => Some(word.to_string()),
            _ => None,
        }
    }

    /// Returns whether the token after `skipped` others is the identifier or keyword `word`.
    pub(crate) fn is_word(self, skipped: usize, word: &str) -> bool {
        self.word(skipped).is_some_and(|found| found == word)
    }

    /// Returns whether the token after `skipped` others is a group in `delimiter`.
    pub(crate) fn is_group(self, skipped: usize, delimiter: Delimiter) -> bool {
        matches!(self.peek(skipped), Some(TokenTree::Group(group))
            if group.delimiter() == delimiter)
    }

    /// Takes one token.
    pub(crate) fn next(&mut self) -> Option<&'a TokenTree> {
        while let Some((entry, rest)) = self.entries.split_first() {
            self.entries = rest;
            if let Entry::Token(token) = entry {
                return Some(token);
            }
        }
        None
    }

    /// Takes the next token if it is an identifier or a keyword.
    pub(crate) fn take_ident(&mut self) -> Option<&'a Ident> {
        let Some(TokenTree::Ident(ident)) = self.peek(0) else {
            return None;
        };
        self.next();
        Some(ident)
    }

    /// Takes the next token if it is a literal.
    pub(crate) fn take_literal(&mut self) -> Option<&'a Literal> {
        let Some(TokenTree::Literal(literal)) = self.peek(0) else {
            return None;
        };
        self.next();
        Some(literal)
    }

    /// Takes the next token if it is a group in `delimiter`.
    pub(crate) fn take_group(&mut self, delimiter: Delimiter) -> Option<&'a Group> {
        if !self.is_group(0, delimiter) {
            return None;
        }
        match self.next() {
            Some(TokenTree::Group(group)) => Some(group),
            _ => None,
        }
    }

    /// Takes `count` tokens if they are the ones that are looked for, and returns whether they are.
    fn take_if(&mut self, is_found: bool, count: usize) -> bool {
        if is_found {
            for _ in 0..count {
                self.next();
            }
        }
        is_found
    }

    /// Takes the next token if it is `character`, and returns whether it was.
    pub(crate) fn take_punct(&mut self, character: char) -> bool {
        self.take_if(self.is_punct(0, character), 1)
    }

    /// Takes the next token if it is `word`, and returns whether it was.
    pub(crate) fn take_word(&mut self, word: &str) -> bool {
        self.take_if(self.is_word(0, word), 1)
    }

    /// Takes `::` if it follows, and returns whether it did.
    pub(crate) fn take_path_separator(&mut self) -> bool {
        self.take_if(self.is_path_separator(0), 2)
    }

    /// Takes `->` if it follows, and returns whether it did.
    pub(crate) fn take_arrow(&mut self) -> bool {
        self.take_if(self.is_joint(0, '-') && self.is_punct(1, '>'), 2)
    }

    /// Takes one token, or a group without delimiters as a whole.
    pub(crate) fn next_atom(&mut self) -> Option<Atom<'a>> {
        while let Some((entry, rest)) = self.entries.split_first() {
            match entry {
                Entry::Token(token) => {
                    self.entries = rest;
                    return Some(Atom::Token(token));
                }
                Entry::Open(group, length) => {
                    self.entries = self.entries.get(*length..).unwrap_or_default();
                    return Some(Atom::Undelimited(group));
                }
                Entry::Close => self.entries = rest,
            }
        }
        None
    }

    /// Returns whether a group without delimiters follows.
    pub(crate) fn is_undelimited(self) -> bool {
        matches!({ self }.next_atom(), Some(Atom::Undelimited(_)))
    }

    /// Skips `<`, which must follow, and all that is up to its `>`.
    pub(crate) fn skip_angles(&mut self) {
        let mut depth = 0_usize;
        let mut is_arrow = false;
        while let Some(atom) = self.next_atom() {
            let Atom::Token(TokenTree::Punct(punct)) = atom else {
                is_arrow = false;
                continue;
            };
            match punct.as_char() {
                '<' => depth += 1,
                '>' if !is_arrow => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return;
                    }
                }
                _ => {}
            }
            is_arrow = starts_arrow(punct);
        }
    }

    /// Skips types and bounds up to where `stop` holds, outside `<…>`.
    pub(crate) fn skip_until(&mut self, stop: impl Fn(Self) -> bool) {
        while !self.is_empty() && !stop(*self) {
            if self.is_punct(0, '<') && !self.is_undelimited() {
                self.skip_angles();
            } else if !self.take_arrow() {
                self.next_atom();
            }
        }
    }

    /// Returns the tokens from here to `end`, which must be a later position of the same buffer.
    pub(crate) fn until(self, end: Self) -> TokenStream {
        let length = self.entries.len().saturating_sub(end.entries.len());
        let mut entries = self.entries.get(..length).unwrap_or_default();
        let mut tokens = Vec::new();
        while let Some((entry, mut rest)) = entries.split_first() {
            match entry {
                Entry::Token(token) => tokens.push(token.clone()),
                // A group that ends outside is left out, and its content is kept.
                Entry::Open(group, length) => {
                    if let Some(after) = entries.get(*length..) {
                        tokens.push(TokenTree::Group(group.clone()));
                        rest = after;
                    }
                }
                Entry::Close => {}
            }
            entries = rest;
        }
        tokens.into_iter().collect()
    }

    /// Returns all tokens from here.
    pub(crate) fn rest(self) -> TokenStream {
        let end = Self {
            entries: &[],
            ..self
        };
        self.until(end)
    }

    /// Returns an error at the next token.
    pub(crate) fn error(self, message: &str) -> Error {
        match self.peek(0) {
            Some(token) => Error::new(token.span(), message),
            None => Error::new(self.end, format!("unexpected end of input, {message}")),
        }
    }
}

/// Returns whether `punct` is the first character of `->` or `=>`, if `>` follows.
fn starts_arrow(punct: &Punct) -> bool {
    matches!(punct.as_char(), '-' | '=') && punct.spacing() == Spacing::Joint
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::quote;

    #[test]
    fn groups_without_delimiters_are_read_and_kept() {
        let group = Group::new(Delimiter::None, quote!(b));
        let tokens = quote!(a #group c);
        let buffer = Buffer::new(tokens.clone());
        let start = buffer.start();
        let mut end = start;
        let words: Vec<_> = std::iter::from_fn(|| end.take_ident())
            .map(ToString::to_string)
            .collect();
        assert_eq!(words, ["a", "b", "c"]);
        let count = |tokens: TokenStream| tokens.into_iter().count();
        assert_eq!(count(start.until(end)), count(tokens));
    }
}
