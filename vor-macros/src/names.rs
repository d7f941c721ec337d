//! The names of scopes.
//!
//! A name consists of last path segments, without generic arguments and without `r#`: `impl
//! fmt::Display for wire::Frame<'_>` gives `<Frame as Display>::fmt`. A `Self` type that is not a
//! path is spelt as its tokens: `<&[u8] as Source>::read`.

use crate::cursor::{Buffer, Cursor};
use crate::item;
use crate::tokens::{Delimiter, Ident, TokenStream, TokenTree};

/// Returns the name of a function or module, without `r#`.
pub(crate) fn ident_name(ident: &Ident) -> String {
    without_raw(ident.to_string())
}

fn without_raw(word: String) -> String {
    match word.strip_prefix("r#") {
        Some(word) => word.to_owned(),
        None => word,
    }
}

/// Returns the part of a scope's name before `::method`, for the methods of an `impl` that begins
/// at `header`.
pub(crate) fn impl_prefix(mut header: Cursor<'_>) -> String {
    while !header.is_empty() && !header.take_word("impl") {
        header.next();
    }
    skip_generics(&mut header);
    // `impl !Trait for Type {}`, but not `impl ! {}`.
    if !header.is_group(1, Delimiter::Brace) {
        header.take_punct('!');
    }
    let first = type_name(take_type(&mut header));
    if header.take_word("for") {
        return format!("<{} as {first}>", type_name(take_type(&mut header)));
    }
    first
}

/// Skips the generic parameters after `impl`, or the start of a path such as `<A as B>::C`, whose
/// name is its last word.
pub(crate) fn skip_generics(cursor: &mut Cursor<'_>) {
    if cursor.is_punct(0, '<') {
        cursor.skip_angles();
    }
}

/// Takes the trait or the type of an `impl`.
fn take_type(cursor: &mut Cursor<'_>) -> TokenStream {
    let start = *cursor;
    cursor.skip_until(|at| {
        let is_binder = at.is_punct(1, '<') && (at.is_punct(2, '\'') || at.is_punct(2, '>'));
        item::is_end(at) || at.is_word(0, "where") || (at.is_word(0, "for") && !is_binder)
    });
    start.until(*cursor)
}

fn type_name(tokens: TokenStream) -> String {
    let buffer = Buffer::new(tokens.clone());
    let mut cursor = buffer.start();
    if let Some(name) = path_name(cursor) {
        return name;
    }
    match cursor.take_group(Delimiter::Parenthesis) {
        Some(group) if cursor.is_empty() && !is_tuple(Buffer::of(group).start()) => {
            type_name(group.stream())
        }
        _ => spell(tokens),
    }
}

/// Returns whether `content`, in parentheses, makes them a tuple.
fn is_tuple(mut content: Cursor<'_>) -> bool {
    let is_unit = content.is_empty();
    content.skip_until(|at| at.is_punct(0, ','));
    is_unit || !content.is_empty()
}

/// Returns the last word of a path, or `None` if `cursor` has something else.
fn path_name(mut cursor: Cursor<'_>) -> Option<String> {
    skip_generics(&mut cursor);
    cursor.take_path_separator();
    loop {
        let name = cursor.take_ident()?.to_string();
        if name == "fn" {
            return None;
        }
        if cursor.is_path_separator(0) && cursor.is_punct(2, '<') {
            cursor.take_path_separator();
        }
        if cursor.is_punct(0, '<') {
            cursor.skip_angles();
        } else if cursor.take_group(Delimiter::Parenthesis).is_some() && cursor.take_arrow() {
            // The output of a bound such as `Fn(A) -> B`.
            cursor.skip_until(|at| at.is_punct(0, '+'));
        }
        if !cursor.take_path_separator() {
            return cursor.is_empty().then(|| without_raw(name));
        }
    }
}

/// Spells tokens as a person would write them.
///
/// `TokenStream`'s own `Display` differs between compiler versions, and a scope's name must not.
fn spell(tokens: TokenStream) -> String {
    let mut text = String::new();
    spell_into(tokens, &mut text);
    text
}

fn spell_into(tokens: TokenStream, text: &mut String) {
    for token in tokens {
        let is_word = matches!(token, TokenTree::Ident(_) | TokenTree::Literal(_));
        if is_word && text.ends_with(|end: char| end.is_alphanumeric() || "_>".contains(end)) {
            text.push(' ');
        }
        match token {
            TokenTree::Ident(ident) => text.push_str(&ident.to_string()),
            TokenTree::Literal(literal) => text.push_str(&literal.to_string()),
            TokenTree::Punct(punct) => match punct.as_char() {
                character @ (',' | ';') => {
                    text.push(character);
                    text.push(' ');
                }
                character @ ('+' | '=') => {
                    text.push(' ');
                    text.push(character);
                    text.push(' ');
                }
                '>' if text.ends_with('-') => {
                    text.pop();
                    text.push_str(" -> ");
                }
                // The quote of a lifetime: a name follows directly, and may itself follow a word.
                '\'' => {
                    if text.ends_with(char::is_alphanumeric) {
                        text.push(' ');
                    }
                    text.push('\'');
                }
                character => text.push(character),
            },
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::None => ("", ""),
                };
                text.push_str(open);
                spell_into(group.stream(), text);
                text.push_str(close);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::Group;
    use quote::quote;

    fn impl_prefix(item: TokenStream) -> String {
        super::impl_prefix(Buffer::new(item).start())
    }

    #[test]
    fn paths_keep_their_last_segment() {
        assert_eq!(impl_prefix(quote!(impl Frame {})), "Frame");
        assert_eq!(
            impl_prefix(quote!(
                impl<'a, T: Copy> wire::v3::Frame<'a, T> {}
            )),
            "Frame"
        );
        assert_eq!(
            impl_prefix(quote!(
                impl<T> std::convert::From<Vec<T>> for wire::Frame<T> {}
            )),
            "<Frame as From>"
        );
        assert_eq!(
            impl_prefix(quote!(impl Trait for r#type {})),
            "<type as Trait>"
        );
        assert_eq!(
            impl_prefix(quote!(impl Trait for (Frame) {})),
            "<Frame as Trait>"
        );
        assert_eq!(
            impl_prefix(quote!(impl !Trait for Frame {})),
            "<Frame as Trait>"
        );
        assert_eq!(
            impl_prefix(quote!(
                impl <A as B>::Frame {}
            )),
            "Frame"
        );
        assert_eq!(
            impl_prefix(quote!(impl Trait for Fn(A)::Output {})),
            "<Output as Trait>"
        );
    }

    #[test]
    fn other_types_are_spelt_out() {
        for (item, name) in [
            (quote!(impl Source for &[u8] {}), "<&[u8] as Source>"),
            (
                quote!(
                    impl<'a> Source for &'a mut Frame {}
                ),
                "<&'a mut Frame as Source>",
            ),
            (
                quote!(impl Source for (u8, [u16; 4]) {}),
                "<(u8, [u16; 4]) as Source>",
            ),
            (
                quote!(impl Source for dyn Read + Send + 'static {}),
                "<dyn Read + Send + 'static as Source>",
            ),
            (
                quote!(impl Source for *const u8 {}),
                "<*const u8 as Source>",
            ),
            (
                quote!(impl Source for fn(u8, u8) -> u16 {}),
                "<fn(u8, u8) -> u16 as Source>",
            ),
            (quote!(impl dyn Source {}), "dyn Source"),
            (quote!(impl Source for &Vec<u8> {}), "<&Vec<u8> as Source>"),
            (
                quote!(impl Source for for<'a> fn(&'a u8) {}),
                "<for<'a> fn(&'a u8) as Source>",
            ),
            (
                quote!(impl Source for for<> fn() {}),
                "<for<> fn() as Source>",
            ),
            (
                quote!(
                    impl ! {}
                ),
                "!",
            ),
        ] {
            assert_eq!(impl_prefix(item), name);
        }
    }

    #[test]
    fn types_from_a_macro_are_spelt_like_others() {
        let ty = Group::new(Delimiter::None, quote!(Frame));
        assert_eq!(
            impl_prefix(quote!(impl Source for &mut #ty {})),
            "<&mut Frame as Source>"
        );
    }
}
