//! The names of scopes.
//!
//! A name consists of last path segments, without generic arguments and without `r#`: `impl
//! fmt::Display for wire::Frame<'_>` gives `<Frame as Display>::fmt`. A `Self` type that is not a
//! path is spelt as its tokens: `<&[u8] as Source>::read`.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::{Ident, ItemImpl, Path, Type};

/// Returns the name of a function or module, without `r#`.
pub(crate) fn ident_name(ident: &Ident) -> String {
    ident.unraw().to_string()
}

/// Returns the part of a scope's name before `::method`, for the methods of `item`.
pub(crate) fn impl_prefix(item: &ItemImpl) -> String {
    let self_name = type_name(&item.self_ty);
    match &item.trait_ {
        Some((_, path, _)) => format!("<{self_name} as {}>", path_name(path)),
        None => self_name,
    }
}

fn path_name(path: &Path) -> String {
    path.segments
        .last()
        .map(|segment| ident_name(&segment.ident))
        .unwrap_or_default()
}

fn type_name(ty: &Type) -> String {
    match ty {
        Type::Path(ty) => path_name(&ty.path),
        Type::Group(group) => type_name(&group.elem),
        Type::Paren(paren) => type_name(&paren.elem),
        other => spell(other.to_token_stream()),
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
    let mut joined = true;
    for token in tokens {
        let is_word = matches!(token, TokenTree::Ident(_) | TokenTree::Literal(_));
        if !joined && is_word && text.ends_with(|end: char| end.is_alphanumeric() || end == '_') {
            text.push(' ');
        }
        joined = false;
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
                    joined = punct.spacing() == Spacing::Joint;
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
    use syn::parse_quote;

    #[test]
    fn paths_keep_their_last_segment() {
        assert_eq!(impl_prefix(&parse_quote!(impl Frame {})), "Frame");
        assert_eq!(
            impl_prefix(&parse_quote!(
                impl<'a, T: Copy> wire::v3::Frame<'a, T> {}
            )),
            "Frame"
        );
        assert_eq!(
            impl_prefix(&parse_quote!(
                impl<T> std::convert::From<Vec<T>> for wire::Frame<T> {}
            )),
            "<Frame as From>"
        );
        assert_eq!(
            impl_prefix(&parse_quote!(impl Trait for r#type {})),
            "<type as Trait>"
        );
        assert_eq!(
            impl_prefix(&parse_quote!(impl Trait for (Frame) {})),
            "<Frame as Trait>"
        );
    }

    #[test]
    fn other_types_are_spelt_out() {
        for (item, name) in [
            (parse_quote!(impl Source for &[u8] {}), "<&[u8] as Source>"),
            (
                parse_quote!(
                    impl<'a> Source for &'a mut Frame {}
                ),
                "<&'a mut Frame as Source>",
            ),
            (
                parse_quote!(impl Source for (u8, [u16; 4]) {}),
                "<(u8, [u16; 4]) as Source>",
            ),
            (
                parse_quote!(impl Source for dyn Read + Send + 'static {}),
                "<dyn Read + Send + 'static as Source>",
            ),
            (
                parse_quote!(impl Source for *const u8 {}),
                "<*const u8 as Source>",
            ),
            (
                parse_quote!(impl Source for fn(u8, u8) -> u16 {}),
                "<fn(u8, u8) -> u16 as Source>",
            ),
            (parse_quote!(impl dyn Source {}), "dyn Source"),
        ] {
            let item: ItemImpl = item;
            assert_eq!(impl_prefix(&item), name);
        }
    }
}
