//! `#[profile]`: one function.
//!
//! The function's body is not parsed, except for the items at its start. So a half-written body in
//! an editor, or one with syntax newer than this crate, still expands, and its errors come from the
//! compiler.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Error, Signature, Token, Visibility};

use crate::options::{self, Options};
use crate::{instrument, names};

const EXPECTED: &str = "vor::profile expects a function or method";

/// Expands `#[profile(options)] item`.
pub(crate) fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    try_expand(options, item.clone()).unwrap_or_else(|error| crate::with_error(item, &error))
}

fn try_expand(options: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let options = Options::parse(options::Attribute::Profile, options)?;
    let function: Function = syn::parse2(item)?;
    instrument::check_arguments(&options, &function.signature)?;
    Ok(function.instrumented(&options))
}

/// A free function or a method, with a body.
struct Function {
    attributes: Vec<Attribute>,
    visibility: Visibility,
    /// `default`, in a specialising `impl`.
    defaultness: Option<Ident>,
    signature: Signature,
    /// The attributes at the start of the body, which apply to the function.
    inner_attributes: Vec<Attribute>,
    body: TokenStream,
    braces: Span,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        if !starts_function(input) {
            return Err(Error::new(Span::call_site(), wrong_item(input)));
        }
        let default = input
            .fork()
            .parse::<Ident>()
            .is_ok_and(|word| word == "default");
        let defaultness = if default { Some(input.parse()?) } else { None };
        let signature: Signature = input.parse()?;
        if input.peek(Token![;]) {
            let message = format!(
                "{EXPECTED} with a body; put the attribute on the functions that implement this one"
            );
            return Err(Error::new(Span::call_site(), message));
        }
        let TokenTree::Group(group) = input.parse()? else {
            return Err(Error::new(signature.ident.span(), EXPECTED));
        };
        let (inner_attributes, body) = syn::parse::Parser::parse2(
            |input: ParseStream<'_>| Ok((input.call(Attribute::parse_inner)?, input.parse()?)),
            group.stream(),
        )?;
        let braces = group.span();
        Ok(Self {
            attributes,
            visibility,
            defaultness,
            signature,
            inner_attributes,
            body,
            braces,
        })
    }
}

impl Function {
    fn instrumented(self, options: &Options) -> TokenStream {
        let Self {
            attributes,
            visibility,
            defaultness,
            signature,
            inner_attributes,
            body,
            braces,
        } = self;
        let body = if instrument::can_be_measured(&attributes, &signature) {
            instrument::body(
                options,
                &signature,
                &names::ident_name(&signature.ident),
                body,
            )
        } else {
            body
        };
        let mut block = Group::new(Delimiter::Brace, quote!(#(#inner_attributes)* #body));
        block.set_span(braces);
        quote!(#(#attributes)* #visibility #defaultness #signature #block)
    }
}

/// Returns whether a function follows: `fn` after any number of qualifiers.
fn starts_function(input: ParseStream<'_>) -> bool {
    let ahead = input.fork();
    loop {
        match ahead.parse::<TokenTree>() {
            Ok(TokenTree::Ident(word)) if word == "fn" => return true,
            Ok(TokenTree::Ident(word)) => {
                if ![
                    "const", "async", "unsafe", "safe", "extern", "default", "gen",
                ]
                .iter()
                .any(|known| word == known)
                {
                    return false;
                }
            }
            // The ABI of `extern "C"`.
            Ok(TokenTree::Literal(_)) => {}
            _ => return false,
        }
    }
}

/// Returns the error for an item that is not a function.
fn wrong_item(input: ParseStream<'_>) -> String {
    let kind =
        if input.peek(Token![impl]) || (input.peek(Token![unsafe]) && input.peek2(Token![impl])) {
            "impl"
        } else if input.peek(Token![trait]) || input.peek2(Token![trait]) {
            "trait"
        } else if input.peek(Token![mod]) {
            "module"
        } else {
            return EXPECTED.to_owned();
        };
    format!("{EXPECTED}; for all the functions of this {kind} use `#[vor::all_functions]`")
}

#[cfg(test)]
mod tests {
    use super::*;

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
        check(
            quote!(),
            quote!(
                fn r#try() {}
            ),
            quote!(
                fn r#try() {
                    ::vor::profile_scope!("try");
                }
            ),
        );
    }

    #[test]
    fn constant_functions_stay_as_they_are() {
        for item in [
            quote!(
                pub const fn f() -> u8 {
                    1
                }
            ),
            quote!(
                const unsafe extern "C" fn f() {}
            ),
        ] {
            check(quote!(name = "f"), item.clone(), item);
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
            quote!(
                struct S;
            ),
            quote!(
                const F: fn() = f;
            ),
            quote!(
                extern "C" {
                    fn f();
                }
            ),
            quote!(
                static F: fn() = f;
            ),
            quote!(
                use std::mem;
            ),
        ] {
            assert_eq!(error(quote!(), item), EXPECTED);
        }
        for (item, kind) in [
            (quote!(impl S {}), "impl"),
            (
                quote!(
                    unsafe impl Send for S {}
                ),
                "impl",
            ),
            (
                quote!(
                    pub trait T {}
                ),
                "trait",
            ),
            (
                quote!(
                    unsafe trait T {}
                ),
                "trait",
            ),
            (
                quote!(
                    mod m {}
                ),
                "module",
            ),
        ] {
            let expected = format!(
                "{EXPECTED}; for all the functions of this {kind} use `#[vor::all_functions]`"
            );
            assert_eq!(error(quote!(), item), expected);
        }
        assert!(
            error(
                quote!(),
                quote!(
                    fn f(&self);
                )
            )
            .starts_with("vor::profile expects a function or method with a body")
        );
    }

    #[test]
    fn an_argument_must_be_a_parameter() {
        assert!(
            error(
                quote!(args(y)),
                quote!(
                    fn f(x: u8) {}
                )
            )
            .contains("its parameters are `x`")
        );
        assert!(
            error(
                quote!(args(y)),
                quote!(
                    fn f() {}
                )
            )
            .contains("`f` has no named parameters")
        );
    }
}
