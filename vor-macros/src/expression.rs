//! The end of an expression in a list.
//!
//! A comma ends it, unless that comma is between the angle brackets of a type or the pipes of a
//! closure. `<` and `|` open these only where an operand is expected: `a < b` compares, `<A>::b()`
//! names a function. In a type after `as` or `->`, and after `::`, `<` opens arguments.

use crate::cursor::{Atom, Cursor};
use crate::tokens::TokenTree;

/// Moves `cursor` from the start of an expression to its end.
pub(crate) fn skip(cursor: &mut Cursor<'_>) {
    // Whether the last token ended an operand.
    let mut is_operand = false;
    // Whether the next token belongs to a type.
    let mut is_type = false;
    while !cursor.is_empty() {
        if !cursor.is_undelimited() {
            if cursor.is_punct(0, ',') {
                return;
            }
            if cursor.take_arrow() {
                is_type = true;
                continue;
            }
            let is_path = cursor.take_path_separator();
            if cursor.is_punct(0, '<') && (is_path || is_type || !is_operand) {
                cursor.skip_angles();
                (is_operand, is_type) = (true, false);
                continue;
            }
            if cursor.is_punct(0, '|') && !is_operand {
                cursor.next();
                cursor.skip_until(|at| at.is_punct(0, '|'));
                cursor.next();
                continue;
            }
        }
        match cursor.next_atom() {
            Some(Atom::Token(TokenTree::Ident(word))) => {
                let word = word.to_string();
                is_operand = !KEYWORDS.contains(&word.as_str());
                let goes_on = cursor.word(0).is_some_and(|next| next != "as")
                    || cursor.is_punct(0, '<')
                    || cursor.is_path_separator(0);
                is_type = word == "as" || is_type && goes_on;
            }
            Some(Atom::Token(TokenTree::Punct(punct))) => match punct.as_char() {
                '?' => {}
                // The name of a label or a lifetime.
                '\'' => {
                    cursor.next();
                }
                // The second character of `<<` or `||`.
                operator @ ('<' | '|') => {
                    cursor.take_punct(operator);
                    is_operand = false;
                }
                _ => is_operand = false,
            },
            _ => (is_operand, is_type) = (true, false),
        }
    }
}

/// The keywords that an operand follows.
const KEYWORDS: [&str; 14] = [
    "as", "async", "break", "else", "if", "in", "let", "match", "move", "mut", "return", "static",
    "while", "yield",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::Buffer;
    use crate::tokens::{Delimiter, Group, TokenStream};
    use quote::quote;

    /// Splits a list at the commas behind its expressions.
    fn split(list: TokenStream) -> Vec<String> {
        let buffer = Buffer::new(list);
        let mut cursor = buffer.start();
        let mut found = Vec::new();
        while !cursor.is_empty() {
            let start = cursor;
            skip(&mut cursor);
            found.push(start.until(cursor).to_string());
            cursor.next();
        }
        found
    }

    #[test]
    fn expressions_end_where_syn_ends_them() {
        let undelimited = Group::new(Delimiter::None, quote!(a < b));
        let path = Group::new(Delimiter::None, quote!(<A>::B));
        // Without the spaces that `quote` puts between the characters.
        let close: TokenStream = "a -&b < c, d > e".parse().unwrap();
        for list in [
            quote!(
                a::<B, C>(x),
                <T as Trait<A, B>>::f(),
                <[u8]>::len(x),
                Vec::<(A, B)>::new()
            ),
            quote!(
                |a, b| a + b,
                move |a: Vec<A, B>, b| -> R<A, B> { a },
                || 1,
                a || b,
                c
            ),
            quote!(
                a < b,
                c > d,
                a << b,
                c >> d,
                a <= b,
                c as A<B, C> < d,
                a as u8 & b < c,
                d > e
            ),
            quote!(
                x as *const A<B, C>,
                &x as &dyn A<B, C>,
                x as fn(A) -> A<B, C>,
                a | b,
                c | d
            ),
            quote!(
                if a < b { 1 } else { 2 },
                'a: loop {
                    break 'a |x, y| x;
                },
                !x?,
                -1 < x,
                y
            ),
            quote!(
                S { a, b }.c < d,
                f!(a, b) < c,
                &mut |x, y| x,
                *x.await < y,
                A::<{ B > C }>::D
            ),
            quote!(x? < y, z > x, break 'a |x, y| x, y),
            quote!(#undelimited, #undelimited < c, d),
            quote!(#path, c > d),
            close,
        ] {
            let parser = syn::punctuated::Punctuated::<syn::Expr, syn::Token![,]>::parse_terminated;
            let expected = syn::parse::Parser::parse2(parser, list.clone()).unwrap();
            let expected: Vec<_> = expected
                .iter()
                .map(|expr| quote!(#expr).to_string())
                .collect();
            let without_spaces = |texts: &[String]| texts.join(" , ").replace(' ', "");
            let found = split(list);
            assert_eq!(without_spaces(&found), without_spaces(&expected));
            assert_eq!(found.len(), expected.len(), "{found:?}");
        }
    }
}
