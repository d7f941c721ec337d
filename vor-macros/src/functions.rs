//! `#[all_functions]` and `#[skip]`: every function of an `impl`, a trait or a module.
//!
//! The walk descends through modules into their `impl`s and traits, and stops at function bodies.
//! It skips an item with its own `#[skip]`, `#[profile]` or `#[all_functions]`. It recognises these
//! by their last path segment, because paths are resolved after macros have run. Inside `cfg_attr`
//! it is not known yet whether they apply, so such an item is emitted twice, with and without
//! scopes, each under the matching condition.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Block, Error, Expr, ImplItem, Item, ItemImpl, ItemMod, ItemTrait, Meta, Path,
    Signature, Stmt, Token, TraitItem, parse_quote,
};

use crate::options::{self, Options};
use crate::{instrument, names};

const EXPECTED: &str = "vor::all_functions expects an impl, a trait or an inline module";

/// Expands `#[all_functions(options)] item`.
pub(crate) fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    try_expand(options, item.clone()).unwrap_or_else(|error| crate::with_error(item, &error))
}

/// Expands `#[skip] item`.
pub(crate) fn expand_skip(options: TokenStream, item: TokenStream) -> TokenStream {
    if options.is_empty() {
        return item;
    }
    crate::with_error(
        item,
        &Error::new_spanned(options, "vor::skip takes no options"),
    )
}

fn try_expand(options: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let options = Options::parse(options::Attribute::AllFunctions, options)?;
    let walk = Walk { options: &options };
    let mut item: Item = syn::parse2(item)?;
    match &mut item {
        Item::Impl(item) => walk.impl_block(item),
        Item::Trait(item) => walk.trait_block(item),
        Item::Mod(item) if item.content.is_some() => walk.module(item, ""),
        Item::Fn(_) => {
            let message = format!("{EXPECTED}; for a single function use `#[vor::profile]`");
            return Err(Error::new(Span::call_site(), message));
        }
        _ => return Err(Error::new(Span::call_site(), EXPECTED)),
    }
    Ok(item.into_token_stream())
}

/// A walk over an item, with the options for all of its functions.
struct Walk<'a> {
    options: &'a Options,
}

impl Walk<'_> {
    fn impl_block(&self, item: &mut ItemImpl) {
        let prefix = names::impl_prefix(item);
        visit_each(&mut item.items, attributes_of_impl_item, |item| {
            if let ImplItem::Fn(function) = item {
                self.function(&prefix, &function.attrs, &function.sig, &mut function.block);
            }
        });
    }

    fn trait_block(&self, item: &mut ItemTrait) {
        let prefix = names::ident_name(&item.ident);
        visit_each(&mut item.items, attributes_of_trait_item, |item| {
            if let TraitItem::Fn(function) = item
                && let Some(block) = &mut function.default
            {
                self.function(&prefix, &function.attrs, &function.sig, block);
            }
        });
    }

    /// Walks a module inside the modules `outer`, a path that is empty or ends in `::`.
    fn module(&self, item: &mut ItemMod, outer: &str) {
        let Some((_, items)) = &mut item.content else {
            return;
        };
        let prefix = format!("{outer}{}", names::ident_name(&item.ident));
        visit_each(items, attributes_of_item, |item| match item {
            Item::Fn(function) => {
                self.function(&prefix, &function.attrs, &function.sig, &mut function.block)
            }
            Item::Impl(item) => self.impl_block(item),
            Item::Trait(item) => self.trait_block(item),
            Item::Mod(item) => self.module(item, &format!("{prefix}::")),
            _ => {}
        });
    }

    fn function(
        &self,
        prefix: &str,
        attributes: &[Attribute],
        signature: &Signature,
        block: &mut Block,
    ) {
        if !instrument::can_be_measured(attributes, signature) {
            return;
        }
        let name = format!("{prefix}::{}", names::ident_name(&signature.ident));
        let statements = &block.stmts;
        let body = instrument::body(self.options, signature, &name, quote!(#(#statements)*));
        block.stmts = vec![Stmt::Expr(Expr::Verbatim(body), None)];
    }
}

/// Calls `visit` on each item that no attribute exempts.
///
/// An item that an attribute exempts under a condition is emitted twice: unchanged under that
/// condition, and visited under its opposite.
fn visit_each<T: Clone>(
    items: &mut Vec<T>,
    attributes: fn(&mut T) -> Option<&mut Vec<Attribute>>,
    visit: impl Fn(&mut T),
) {
    let mut visited = Vec::with_capacity(items.len());
    for mut item in items.drain(..) {
        let exemption = match attributes(&mut item) {
            Some(attributes) => Exemption::of(attributes),
            None => Exemption::Always,
        };
        match exemption {
            Exemption::Never => visit(&mut item),
            Exemption::Always => {}
            Exemption::When(condition) => {
                let mut exempt = item.clone();
                if let Some(attributes) = attributes(&mut exempt) {
                    attributes.insert(0, parse_quote!(#[cfg(#condition)]));
                }
                visited.push(exempt);
                visit(&mut item);
                if let Some(attributes) = attributes(&mut item) {
                    attributes.insert(0, parse_quote!(#[cfg(not(#condition))]));
                }
            }
        }
        visited.push(item);
    }
    *items = visited;
}

/// Returns the attributes of an item of an `impl`, if the walk descends into it.
fn attributes_of_impl_item(item: &mut ImplItem) -> Option<&mut Vec<Attribute>> {
    match item {
        ImplItem::Fn(function) => Some(&mut function.attrs),
        _ => None,
    }
}

/// Returns the attributes of an item of a trait, if the walk descends into it.
fn attributes_of_trait_item(item: &mut TraitItem) -> Option<&mut Vec<Attribute>> {
    match item {
        TraitItem::Fn(function) => Some(&mut function.attrs),
        _ => None,
    }
}

/// Returns the attributes of an item of a module, if the walk descends into it.
fn attributes_of_item(item: &mut Item) -> Option<&mut Vec<Attribute>> {
    match item {
        Item::Fn(item) => Some(&mut item.attrs),
        Item::Impl(item) => Some(&mut item.attrs),
        Item::Trait(item) => Some(&mut item.attrs),
        Item::Mod(item) => Some(&mut item.attrs),
        _ => None,
    }
}

/// Whether attributes exempt their item from the walk.
#[derive(Debug)]
enum Exemption {
    Never,
    Always,
    /// Under this `cfg` predicate.
    When(TokenStream),
}

impl Exemption {
    fn of(attributes: &[Attribute]) -> Self {
        let mut conditions = Vec::new();
        for attribute in attributes {
            match Self::of_meta(&attribute.meta) {
                Self::Never => {}
                Self::Always => return Self::Always,
                Self::When(condition) => conditions.push(condition),
            }
        }
        Self::any(conditions)
    }

    fn of_meta(meta: &Meta) -> Self {
        if is_exempting(meta.path()) {
            return Self::Always;
        }
        let Meta::List(list) = meta else {
            return Self::Never;
        };
        if !list.path.is_ident("cfg_attr") {
            return Self::Never;
        }
        // The compiler reports an attribute that does not parse.
        let Ok(list) = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated) else {
            return Self::Never;
        };
        let mut list = list.iter();
        let Some(predicate) = list.next() else {
            return Self::Never;
        };
        let conditions = list.filter_map(|attribute| match Self::of_meta(attribute) {
            Self::Never => None,
            Self::Always => Some(quote!(#predicate)),
            Self::When(condition) => Some(quote!(all(#predicate, #condition))),
        });
        Self::any(conditions.collect())
    }

    fn any(conditions: Vec<TokenStream>) -> Self {
        match conditions.as_slice() {
            [] => Self::Never,
            [condition] => Self::When(condition.clone()),
            conditions => Self::When(quote!(any(#(#conditions),*))),
        }
    }
}

fn is_exempting(path: &Path) -> bool {
    path.segments.last().is_some_and(|segment| {
        ["skip", "profile", "all_functions"]
            .iter()
            .any(|name| segment.ident == name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for item in [
            quote!(
                struct S;
            ),
            quote!(
                mod elsewhere;
            ),
            quote!(
                use std::mem;
            ),
        ] {
            assert_eq!(error(item), EXPECTED);
        }
        assert_eq!(
            error(quote!(
                fn f() {}
            )),
            format!("{EXPECTED}; for a single function use `#[vor::profile]`")
        );
    }

    #[test]
    fn skip_takes_no_options() {
        let item = quote!(
            fn f() {}
        );
        assert_eq!(
            expand_skip(quote!(), item.clone()).to_string(),
            item.to_string()
        );
        let refused = expand_skip(quote!(always), item.clone()).to_string();
        assert!(
            refused.starts_with(&item.to_string())
                && refused.contains("vor::skip takes no options"),
            "{refused}"
        );
    }
}
