//! Attribute macros of the vor profiler: `#[profile]`, `#[all_functions]` and `#[skip]`.
//!
//! Programs use them through the facade crate `vor`, as `#[vor::profile]` and so on.
//!
//! An attribute measures a function by adding one statement to its body. The signature, the
//! attributes, the documentation and the positions of compiler errors stay the same. The additions:
//!
//! | function | expansion |
//! |---|---|
//! | `fn` | `{ vor::profile_scope!("name"); body }` |
//! | `async fn` | `{ ProfiledFuture::new(call_site!("name"), async move { body }).await }` |
//! | `const fn` | nothing, since it may run in the compiler |
//! | naked `fn` | nothing, since its body may only be assembly |
//!
//! An attribute passes through these modules: `profile` takes one function, and `functions` finds
//! those of an `impl`, a trait or a module. `options` parses the parentheses, `item` and
//! `signature` find the parts of an item, `names` makes the names of scopes, and `instrument`
//! rewrites one body.
//!
//! A macro needs the outline of an item only. So the modules read tokens themselves, and a build
//! does not compile a parser of the whole language. Tokens that do not change are emitted as they
//! came, and the compiler reports errors in them.

#![cfg_attr(
    not(test),
    expect(clippy::useless_conversion, reason = "unit tests have other tokens")
)]

use proc_macro::TokenStream;

mod profile;
mod functions;
mod options;
mod expression;
mod item;
mod attribute;
mod signature;
mod pattern;
mod names;
mod instrument;
mod literal;
mod template;
mod cursor;
mod error;
mod tokens;
#[cfg(test)]
mod judge;

#[doc = include_str!("../docs/profile.md")]
#[proc_macro_attribute]
pub fn profile(options: TokenStream, item: TokenStream) -> TokenStream {
    profile::expand(options.into(), item.into()).into()
}

#[doc = include_str!("../docs/all_functions.md")]
#[proc_macro_attribute]
pub fn all_functions(options: TokenStream, item: TokenStream) -> TokenStream {
    functions::expand(options.into(), item.into()).into()
}

#[doc = include_str!("../docs/skip.md")]
#[proc_macro_attribute]
pub fn skip(options: TokenStream, item: TokenStream) -> TokenStream {
    functions::expand_skip(options.into(), item.into()).into()
}
