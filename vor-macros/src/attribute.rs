//! Attributes of an item: `#[path]`, `#[path(list)]` or `#[path = value]`.

use crate::cursor::{Buffer, Cursor};
use crate::tokens::{Delimiter, Group};

/// The content of an attribute, or of a part of `cfg_attr`.
pub(crate) struct Meta {
    /// The words of the path.
    path: Vec<String>,
    /// The parentheses after the path.
    pub list: Option<Group>,
}

impl Meta {
    /// Reads the start of an attribute. The compiler reports an error in the rest.
    pub(crate) fn parse(cursor: &mut Cursor<'_>) -> Self {
        cursor.take_path_separator();
        let mut path = Vec::new();
        while let Some(word) = cursor.take_ident() {
            path.push(word.to_string());
            if !cursor.take_path_separator() {
                break;
            }
        }
        let list = cursor.take_group(Delimiter::Parenthesis).cloned();
        Self { path, list }
    }

    /// Returns whether the path is the single word `word`.
    pub(crate) fn is(&self, word: &str) -> bool {
        self.path == [word]
    }

    /// Returns the last word of the path.
    pub(crate) fn last_word(&self) -> &str {
        self.path.last().map_or("", String::as_str)
    }

    /// Returns whether it is `naked` or `unsafe(naked)`.
    pub(crate) fn is_naked(&self) -> bool {
        match &self.list {
            None => self.is("naked"),
            Some(list) => {
                let list = Buffer::of(list);
                let list = list.start();
                self.is("unsafe") && list.is_word(0, "naked") && list.peek(1).is_none()
            }
        }
    }
}

/// Takes the attributes before an item.
pub(crate) fn take_outer(cursor: &mut Cursor<'_>) -> Vec<Meta> {
    take(cursor, false)
}

/// Takes the attributes `#![…]` at the start of a block, which apply to the item around it.
pub(crate) fn take_inner(cursor: &mut Cursor<'_>) -> Vec<Meta> {
    take(cursor, true)
}

fn take(cursor: &mut Cursor<'_>, is_inner: bool) -> Vec<Meta> {
    let mut attributes = Vec::new();
    loop {
        let mut content = *cursor;
        if !content.take_punct('#') || is_inner && !content.take_punct('!') {
            return attributes;
        }
        let Some(brackets) = content.take_group(Delimiter::Bracket) else {
            return attributes;
        };
        attributes.push(Meta::parse(&mut Buffer::of(brackets).start()));
        *cursor = content;
    }
}
