//! `#[all_functions]` and `#[skip]`: every function of an `impl`, a trait or a module.
//!
//! The walk descends through modules into their `impl`s and traits, and stops at function bodies.
//! It skips an item with its own `#[skip]`, `#[profile]` or `#[all_functions]`. It recognises these
//! by their last path segment, because paths are resolved after macros have run. Inside `cfg_attr`
//! it is not known yet whether they apply, so such an item is emitted twice, with and without
//! scopes, each under the matching condition.

use crate::attribute::{self, Meta};
use crate::cursor::Buffer;
use crate::error::{Error, Result};
use crate::item::{Item, Kind};
use crate::options::{self, Options};
use crate::signature::Signature;
use crate::template::fill;
use crate::tokens::{Group, Span, TokenStream};
use crate::{instrument, names};

const EXPECTED: &str = "vor::all_functions expects an impl, a trait or an inline module";

/// Expands `#[all_functions(options)] item`.
pub(crate) fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    try_expand(options, item.clone()).unwrap_or_else(|error| error.beside(item))
}

/// Expands `#[skip] item`.
pub(crate) fn expand_skip(options: TokenStream, item: TokenStream) -> TokenStream {
    if options.is_empty() {
        return item;
    }
    Error::spanned(options, "vor::skip takes no options").beside(item)
}

fn try_expand(options: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let options = Options::parse(options::Attribute::AllFunctions, options)?;
    let buffer = Buffer::new(item);
    let mut rest = buffer.start();
    let item = Item::take(&mut rest);
    if !rest.is_empty() {
        return Err(rest.error("unexpected token"));
    }
    let error = |message: &str| Err(Error::new(Span::call_site(), message));
    match item.kind {
        _ if item.block.is_none() => error(EXPECTED),
        Kind::Impl | Kind::Trait | Kind::Module => Ok(Walk { options: &options }.item(&item, "")),
        Kind::Function => error(&format!(
            "{EXPECTED}; for a single function use `#[vor::profile]`"
        )),
        Kind::Statement | Kind::Other | Kind::Unknown => error(EXPECTED),
    }
}

/// A walk over an item, with the options for all of its functions.
struct Walk<'a> {
    options: &'a Options,
}

impl Walk<'_> {
    /// Returns `item` with scopes.
    ///
    /// `outer` is the path of the item around it; it is empty or ends in `::`.
    fn item(&self, item: &Item<'_>, outer: &str) -> TokenStream {
        let Some(block) = item.block else {
            return item.tokens();
        };
        let content = match item.kind {
            Kind::Function => match Signature::parse(item.header) {
                Ok(signature) if instrument::can_be_measured(&item.attributes, &signature) => {
                    let name = format!("{outer}{}", names::ident_name(&signature.name));
                    instrument::block(self.options, &signature, &name, block)
                }
                // The compiler reports a signature that does not parse.
                _ => return item.tokens(),
            },
            Kind::Impl => self.items(block, &names::impl_prefix(item.header)),
            Kind::Trait => self.items(block, &item.name()),
            Kind::Module => self.items(block, &format!("{outer}{}", item.name())),
            Kind::Statement | Kind::Other | Kind::Unknown => return item.tokens(),
        };
        item.with_content(content)
    }

    /// Returns the content of `block`, in which each item that no attribute exempts has scopes.
    ///
    /// An item that an attribute exempts under a condition is emitted twice: unchanged under that
    /// condition, and with scopes under its opposite.
    fn items(&self, block: &Group, prefix: &str) -> TokenStream {
        let outer = format!("{prefix}::");
        let buffer = Buffer::of(block);
        let mut cursor = buffer.start();
        attribute::take_inner(&mut cursor);
        let mut content = buffer.start().until(cursor);
        while !cursor.is_empty() {
            let item = Item::take(&mut cursor);
            let exemption = match item.kind {
                Kind::Function | Kind::Impl | Kind::Trait | Kind::Module => {
                    Exemption::of(&item.attributes)
                }
                Kind::Statement | Kind::Other | Kind::Unknown => Exemption::Always,
            };
            match exemption {
                Exemption::Never => content.extend(self.item(&item, &outer)),
                Exemption::Always => content.extend(item.tokens()),
                Exemption::When(condition) => content.extend(fill(
                    Span::call_site(),
                    "#[cfg($condition)] $exempt #[cfg(not($condition))] $measured",
                    &[
                        ("condition", &condition),
                        ("exempt", &item.tokens()),
                        ("measured", &self.item(&item, &outer)),
                    ],
                )),
            }
        }
        content
    }
}

/// The effect of an item's attributes on the walk.
#[derive(Debug)]
enum Exemption {
    Never,
    Always,
    /// Under this `cfg` predicate.
    When(TokenStream),
}

impl Exemption {
    fn of(attributes: &[Meta]) -> Self {
        let mut conditions = Vec::new();
        for attribute in attributes {
            match Self::of_meta(attribute) {
                Self::Never => {}
                Self::Always => return Self::Always,
                Self::When(condition) => conditions.push(condition),
            }
        }
        Self::any(&conditions)
    }

    fn of_meta(meta: &Meta) -> Self {
        if ["skip", "profile", "all_functions"].contains(&meta.last_word()) {
            return Self::Always;
        }
        let Some(list) = meta.list.as_ref().filter(|_| meta.is("cfg_attr")) else {
            return Self::Never;
        };
        let buffer = Buffer::of(list);
        let mut cursor = buffer.start();
        cursor.skip_until(|at| at.is_punct(0, ','));
        let predicate = buffer.start().until(cursor);
        let mut conditions = Vec::new();
        while cursor.take_punct(',') {
            match Self::of_meta(&Meta::parse(&mut cursor)) {
                Self::Never => {}
                Self::Always => conditions.push(predicate.clone()),
                Self::When(condition) => conditions.push(fill(
                    Span::call_site(),
                    "all($predicate, $condition)",
                    &[("predicate", &predicate), ("condition", &condition)],
                )),
            }
            cursor.skip_until(|at| at.is_punct(0, ','));
        }
        Self::any(&conditions)
    }

    fn any(conditions: &[TokenStream]) -> Self {
        let [first, others @ ..] = conditions else {
            return Self::Never;
        };
        if others.is_empty() {
            return Self::When(first.clone());
        }
        let mut list = first.clone();
        for other in others {
            list.extend(fill(Span::call_site(), ", $other", &[("other", other)]));
        }
        Self::When(fill(Span::call_site(), "any($list)", &[("list", &list)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::quote;

    /// Checks that `item` becomes `expected`.
    fn check(item: TokenStream, expected: TokenStream) {
        assert_eq!(expand(quote!(), item).to_string(), expected.to_string());
    }

    fn error(item: TokenStream) -> String {
        let Err(error) = try_expand(quote!(), item.clone()) else {
            panic!("{item} should be refused");
        };
        error.to_string()
    }

    #[test]
    fn methods_are_named_after_their_type() {
        check(
            quote! {
                impl<T> wire::Frame<T> {
                    const LEN: usize = 1;
                    pub const fn new() -> Self { Self }
                    pub fn len(&self) -> usize { 1 }
                    generated!();
                }
            },
            quote! {
                impl<T> wire::Frame<T> {
                    const LEN: usize = 1;
                    pub const fn new() -> Self { Self }
                    pub fn len(&self) -> usize { ::vor::profile_scope!("Frame::len"); 1 }
                    generated!();
                }
            },
        );
    }

    #[test]
    fn methods_of_a_trait_are_named_after_type_and_trait() {
        check(
            quote!(impl fmt::Display for Frame<'_> { fn fmt(&self) { #![allow(unused)] 1; } }),
            quote! {
                impl fmt::Display for Frame<'_> {
                    fn fmt(&self) {
                        #![allow(unused)]
                        ::vor::profile_scope!("<Frame as Display>::fmt");
                        1;
                    }
                }
            },
        );
        check(
            quote!(
                pub trait Source {
                    fn read(&self);
                    fn read_all(&self) {
                        self.read()
                    }
                }
            ),
            quote! {
                pub trait Source {
                    fn read(&self);
                    fn read_all(&self) { ::vor::profile_scope!("Source::read_all"); self.read() }
                }
            },
        );
    }

    #[test]
    fn modules_are_walked() {
        check(
            quote! {
                mod outer {
                    use super::*;
                    pub fn f() {}
                    mod inner { fn g() {} }
                    mod elsewhere;
                    impl S { fn h() {} }
                    trait T { fn i() {} }
                    #[skip]
                    mod quiet { fn j() {} }
                    #[vor::all_functions(category = "io")]
                    impl R { fn k() {} }
                }
            },
            quote! {
                mod outer {
                    use super::*;
                    pub fn f() { ::vor::profile_scope!("outer::f"); }
                    mod inner { fn g() { ::vor::profile_scope!("outer::inner::g"); } }
                    mod elsewhere;
                    impl S { fn h() { ::vor::profile_scope!("S::h"); } }
                    trait T { fn i() { ::vor::profile_scope!("T::i"); } }
                    #[skip]
                    mod quiet { fn j() {} }
                    #[vor::all_functions(category = "io")]
                    impl R { fn k() {} }
                }
            },
        );
    }

    #[test]
    fn marked_functions_are_left_out() {
        let item = quote! {
            impl S {
                #[skip] fn a() {}
                #[vor::skip] fn b() {}
                #[::other::path::skip] fn c() {}
                #[vor::profile(name = "d")] fn d() {}
            }
        };
        check(item.clone(), item);
    }

    #[test]
    fn a_conditional_mark_holds_under_its_condition() {
        check(
            quote! {
                impl S {
                    #[cfg_attr(unix, inline, vor::skip)]
                    #[cfg_attr(test, cfg_attr(miri, profile))]
                    fn a() {}
                    #[cfg_attr(unix, inline)]
                    fn b() {}
                }
            },
            quote! {
                impl S {
                    #[cfg(any(unix, all(test, miri)))]
                    #[cfg_attr(unix, inline, vor::skip)]
                    #[cfg_attr(test, cfg_attr(miri, profile))]
                    fn a() {}
                    #[cfg(not(any(unix, all(test, miri))))]
                    #[cfg_attr(unix, inline, vor::skip)]
                    #[cfg_attr(test, cfg_attr(miri, profile))]
                    fn a() { ::vor::profile_scope!("S::a"); }
                    #[cfg_attr(unix, inline)]
                    fn b() { ::vor::profile_scope!("S::b"); }
                }
            },
        );
    }

    #[test]
    fn options_hold_for_every_function() {
        let expansion = expand(
            quote!(category = "io", crate = crate::vor),
            quote!(impl S { fn a() {} async fn b() {} }),
        )
        .to_string();
        let scope = quote!(crate::vor::profile_scope!("S::a", @category = "io");).to_string();
        let site = quote!(crate::vor::__private::call_site!("S::b", @category = "io")).to_string();
        assert!(
            expansion.contains(&scope) && expansion.contains(&site),
            "{expansion}"
        );
    }

    #[test]
    fn other_items_are_refused() {
        let error = |text: &str| error(text.parse().unwrap_or_else(|error| panic!("{error}")));
        for item in [
            "struct S;",
            "mod elsewhere;",
            "use std::mem;",
            "impl<T> const Clone for S<T> {}",
        ] {
            assert_eq!(error(item), EXPECTED);
        }
        let expected = format!("{EXPECTED}; for a single function use `#[vor::profile]`");
        assert_eq!(error("fn f() {}"), expected);
    }

    #[test]
    fn skip_takes_no_options() {
        let item = quote!(
            fn f() {}
        );
        let text = item.to_string();
        assert_eq!(expand_skip(quote!(), item.clone()).to_string(), text);
        let refused = expand_skip(quote!(always), item).to_string();
        assert!(
            refused.starts_with(&text) && refused.contains("vor::skip takes no options"),
            "{refused}"
        );
    }
}
