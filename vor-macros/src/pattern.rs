//! The names that the parameters of a function bind.
//!
//! A name in a pattern binds if it is neither a keyword, nor part of a path, nor the name of a
//! field, nor an end of a range. A constant such as `MAX` looks the same and counts as a name.

use crate::attribute;
use crate::cursor::{Buffer, Cursor};
use crate::tokens::{Delimiter, Group, Ident, TokenTree, is_keyword};

/// Returns the names that `parameters`, the parentheses of a function, bind.
pub(crate) fn names_in(parameters: &Group) -> Vec<Ident> {
    let buffer = Buffer::of(parameters);
    let mut cursor = buffer.start();
    let mut names = Vec::new();
    while !cursor.is_empty() {
        attribute::take_outer(&mut cursor);
        let earlier = names.len();
        take_names(&mut cursor, Place::Parameter, &mut names);
        // `arguments: ...`, the variable arguments of a C function, is no value to record.
        if cursor.take_punct(':') && cursor.is_punct(0, '.') {
            names.truncate(earlier);
        }
        cursor.skip_until(|at| at.is_punct(0, ','));
        cursor.next();
    }
    names
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A parameter, whose pattern ends at its type.
    Parameter,
    /// The braces of a structure, with `field` or `field: pattern`.
    Fields,
    /// Other parentheses or brackets.
    Nested,
}

/// Takes a pattern and appends the names that it binds.
fn take_names(cursor: &mut Cursor<'_>, place: Place, names: &mut Vec<Ident>) {
    // Whether `::`, `..` or `..=` came just before.
    let mut continues = false;
    loop {
        if place == Place::Parameter && (cursor.is_punct(0, ',') || is_colon(*cursor, 0)) {
            return;
        }
        attribute::take_outer(cursor);
        if cursor.is_punct(0, '<') {
            cursor.skip_angles();
        }
        if cursor.take_path_separator() {
            continues = true;
            continue;
        }
        match cursor.next() {
            None => return,
            Some(TokenTree::Punct(punct)) => match punct.as_char() {
                '.' => continues = true,
                // The `=` of `..=`.
                '=' => {}
                // The name of a lifetime.
                '\'' => {
                    cursor.next();
                }
                _ => continues = false,
            },
            Some(TokenTree::Ident(ident)) => {
                let word = ident.to_string();
                if cursor.is_punct(0, '!') || word == "const" {
                    // The content of a macro call or of a block.
                    cursor.take_punct('!');
                    cursor.next();
                } else if place == Place::Fields && is_colon(*cursor, 0) {
                    cursor.next();
                } else if !continues && !is_path_or_range(*cursor) && !is_keyword(&word) {
                    names.push(ident.clone());
                }
                continues = false;
            }
            Some(TokenTree::Group(group)) => {
                let place = match group.delimiter() {
                    Delimiter::Brace => Place::Fields,
                    _ => Place::Nested,
                };
                take_names(&mut Buffer::of(group).start(), place, names);
                continues = false;
            }
            Some(TokenTree::Literal(_)) => continues = false,
        }
    }
}

/// Returns whether a name before `cursor` belongs to a path, a structure or a range.
fn is_path_or_range(cursor: Cursor<'_>) -> bool {
    cursor.is_path_separator(0)
        || cursor.is_group(0, Delimiter::Parenthesis)
        || cursor.is_group(0, Delimiter::Brace)
        || cursor.is_punct(0, '.')
}

fn is_colon(cursor: Cursor<'_>, skipped: usize) -> bool {
    cursor.is_punct(skipped, ':') && !cursor.is_path_separator(skipped)
}
