//! `#[profile]`: one function.
//!
//! The function's body is not parsed, except for the items at its start. So a half-written body in
//! an editor, or one with syntax newer than this crate, still expands, and its errors come from the
//! compiler.

use crate::cursor::{Buffer, Cursor};
use crate::error::{Error, Result};
use crate::item::Item;
use crate::options::{self, Options};
use crate::signature::Signature;
use crate::tokens::{Span, TokenStream, TokenTree};
use crate::{instrument, names};

const EXPECTED: &str = "vor::profile expects a function or method";

/// Expands `#[profile(options)] item`.
pub(crate) fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    try_expand(options, item.clone()).unwrap_or_else(|error| error.beside(item))
}

fn try_expand(options: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let options = Options::parse(options::Attribute::Profile, options)?;
    let buffer = Buffer::new(item);
    let mut rest = buffer.start();
    let item = Item::take(&mut rest);
    if !starts_function(item.header) {
        return Err(Error::new(Span::call_site(), wrong_item(item.header)));
    }
    let signature = Signature::parse(item.header)?;
    let Some(block) = item.block else {
        if !item.is_complete {
            return Err(Error::new(signature.name.span(), EXPECTED));
        }
        let message = format!(
            "{EXPECTED} with a body; put the attribute on the functions that implement this one"
        );
        return Err(Error::new(Span::call_site(), message));
    };
    if !rest.is_empty() {
        return Err(rest.error("unexpected token"));
    }
    instrument::check_arguments(&options, &signature)?;
    if !instrument::can_be_measured(&item.attributes, &signature) {
        return Ok(item.tokens());
    }
    let name = names::ident_name(&signature.name);
    Ok(item.with_content(instrument::block(&options, &signature, &name, block)))
}

/// Returns whether a function follows: `fn` after any number of qualifiers.
fn starts_function(mut header: Cursor<'_>) -> bool {
    loop {
        match header.next() {
            Some(TokenTree::Ident(word)) => match word.to_string().as_str() {
                "fn" => return true,
                "const" | "async" | "unsafe" | "safe" | "extern" | "default" | "gen" => {}
                _ => return false,
            },
            // The ABI of `extern "C"`.
            Some(TokenTree::Literal(_)) => {}
            _ => return false,
        }
    }
}

/// Returns the error for an item that is not a function.
fn wrong_item(header: Cursor<'_>) -> String {
    let is_unsafe = usize::from(header.is_word(0, "unsafe"));
    let kind = if header.is_word(is_unsafe, "impl") {
        "impl"
    } else if header.is_word(0, "trait") || header.is_word(1, "trait") {
        "trait"
    } else if header.is_word(0, "mod") {
        "module"
    } else {
        return EXPECTED.to_owned();
    };
    format!("{EXPECTED}; for all the functions of this {kind} use `#[vor::all_functions]`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::quote;

    fn tokens(text: &str) -> TokenStream {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Checks that `item` becomes `expected`.
    fn check(options: TokenStream, item: TokenStream, expected: TokenStream) {
        assert_eq!(expand(options, item).to_string(), expected.to_string());
    }

    fn error(options: TokenStream, item: TokenStream) -> String {
        let Err(error) = try_expand(options.clone(), item.clone()) else {
            panic!("{item} should be refused");
        };
        assert!(
            expand(quote!(unknown), item.clone())
                .to_string()
                .starts_with(&item.to_string())
        );
        error.to_string()
    }

    #[test]
    fn only_the_body_changes() {
        check(
            quote!(),
            quote! {
                #[doc = " Adds."]
                #[track_caller]
                pub(crate) unsafe extern "C" fn add<'a, T: Copy>(
                    self: &'a Self, x: T
                ) -> impl Copy + 'a where T: 'a {
                    #![allow(unused)]
                    x
                }
            },
            quote! {
                #[doc = " Adds."]
                #[track_caller]
                pub(crate) unsafe extern "C" fn add<'a, T: Copy>(
                    self: &'a Self, x: T
                ) -> impl Copy + 'a where T: 'a {
                    #![allow(unused)]
                    ::vor::profile_scope!("add");
                    x
                }
            },
        );
    }

    #[test]
    fn raw_names_lose_their_prefix() {
        let expected = tokens("fn r#try() { ::vor::profile_scope!(\"try\"); }");
        check(quote!(), tokens("fn r#try() {}"), expected);
    }

    #[test]
    fn constant_functions_stay_as_they_are() {
        for item in [
            "pub const fn f() -> u8 { 1 }",
            "const unsafe extern \"C\" fn f() {}",
        ] {
            check(quote!(name = "f"), tokens(item), tokens(item));
        }
    }

    #[test]
    fn a_specialising_method_is_measured() {
        check(
            quote!(),
            quote!(default fn f() {}),
            quote!(default fn f() { ::vor::profile_scope!("f"); }),
        );
    }

    #[test]
    fn a_half_written_body_still_expands() {
        check(
            quote!(),
            quote!(fn f() { let x = value. ; }),
            quote!(fn f() { ::vor::profile_scope!("f"); let x = value. ; }),
        );
    }

    #[test]
    fn other_items_are_refused() {
        for item in [
            "struct S;",
            "const F: fn() = f;",
            "extern \"C\" { fn f(); }",
            "static F: fn() = f;",
            "use std::mem;",
        ] {
            assert_eq!(error(quote!(), tokens(item)), EXPECTED);
        }
        for (item, kind) in [
            ("impl S {}", "impl"),
            ("unsafe impl Send for S {}", "impl"),
            ("pub trait T {}", "trait"),
            ("unsafe trait T {}", "trait"),
            ("mod m {}", "module"),
        ] {
            let expected = format!(
                "{EXPECTED}; for all the functions of this {kind} use `#[vor::all_functions]`"
            );
            assert_eq!(error(quote!(), tokens(item)), expected);
        }
        let error = error(quote!(), tokens("fn f(&self);"));
        assert!(error.starts_with("vor::profile expects a function or method with a body"));
    }

    #[test]
    fn an_argument_must_be_a_parameter() {
        let error = |item| error(quote!(args(y)), tokens(item));
        assert!(error("fn f(x: u8) {}").contains("its parameters are `x`"));
        assert!(error("fn f() {}").contains("`f` has no named parameters"));
    }
}
