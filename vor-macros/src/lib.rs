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

/// Measures every call of a function or method as one scope, named after the function.
///
/// Functions of every kind are accepted: free functions, methods, generic ones, `unsafe` and
/// `extern` ones, ones that return `impl Trait`. A `const fn` stays as it is, since it may run in
/// the compiler.
///
/// The scope of an `async fn` is open while its future is polled and closed while it waits, so that
/// it does not count the time of other tasks on the same thread. The future stays `Send` if it was.
///
/// ```
/// #[vor::profile]
/// fn decode(block: &[u8]) -> usize {
///     block.iter().filter(|byte| **byte != 0).count()
/// }
///
/// #[vor::profile]
/// async fn fetch(url: String) -> usize {
///     std::future::ready(url.len()).await
/// }
///
/// assert_eq!(decode(&[1, 0, 2]), 2);
/// # let _future = fetch(String::new());
/// ```
///
/// # Options
///
/// | option | meaning |
/// |---|---|
/// | `name = "…"` | the scope's name, in place of the function's |
/// | `args(x, key = expression)` | values of each call: parameters by name, expressions by key |
/// | `category = "…"` | a group that viewers can filter by |
/// | `color = 0xRRGGBB` | the colour that viewers draw the scope in |
/// | `crate = path` | the path of the facade, for a renamed or re-exported `vor` |
///
/// Arguments are evaluated when the function is entered, and only while recording is on. On an
/// `async fn` they are recorded once, at the first poll, on a short scope of their own called
/// `"<name> args"`, since the scope itself is opened anew by every poll.
///
/// ```
/// struct Codec {
///     level: u32,
/// }
///
/// impl Codec {
///     #[vor::profile(
///         name = "codec/pack",
///         args(level = self.level, bytes = data.len(), last),
///         category = "codec",
///         color = 0x3388ff
///     )]
///     fn pack(&self, data: &[u8], last: bool) -> usize {
///         data.len() + usize::from(last) + self.level as usize
///     }
/// }
///
/// assert_eq!(Codec { level: 3 }.pack(b"abc", true), 7);
/// ```
///
/// If `vor` is re-exported under another path, `crate` names it:
///
/// ```
/// mod telemetry {
///     pub use vor;
/// }
///
/// #[telemetry::vor::profile(crate = telemetry::vor)]
/// fn step() {}
/// # step();
/// ```
///
/// # Errors
///
/// An item other than a function with a body, an unknown option, and an argument that names no
/// parameter are compile errors:
///
/// ```compile_fail
/// #[vor::profile]
/// struct NotAFunction;
/// ```
#[proc_macro_attribute]
pub fn profile(options: TokenStream, item: TokenStream) -> TokenStream {
    profile::expand(options.into(), item.into()).into()
}

/// Measures every function of an `impl`, a trait or an inline module, like [`macro@profile`].
///
/// | function in | name of its scope |
/// |---|---|
/// | `impl Type` | `Type::method` |
/// | `impl Trait for Type` | `<Type as Trait>::method` |
/// | `trait Trait` (methods with a default body) | `Trait::method` |
/// | `mod outer { mod inner { … } }` | `outer::inner::function` |
///
/// Paths are cut to their last segment, and generic arguments are left out. An `impl` or a trait
/// inside a module is measured under its own name, as if it had the attribute itself.
///
/// ```
/// struct Parser {
///     position: usize,
/// }
///
/// #[vor::all_functions]
/// impl Parser {
///     const fn new() -> Self {
///         Self { position: 0 }
///     }
///
///     fn advance(&mut self, count: usize) {
///         self.position += count;
///     }
///
///     #[vor::skip]
///     fn position(&self) -> usize {
///         self.position
///     }
/// }
///
/// let mut parser = Parser::new();
/// parser.advance(2); // recorded as "Parser::advance"
/// assert_eq!(parser.position(), 2); // not recorded
///
/// #[vor::all_functions(category = "geometry")]
/// mod shapes {
///     pub fn area(width: u32, height: u32) -> u32 {
///         width * height
///     }
/// }
///
/// assert_eq!(shapes::area(2, 3), 6); // recorded as "shapes::area"
/// ```
///
/// The options `category`, `color` and `crate` are those of [`macro@profile`], and apply to every
/// function. A function with its own `#[profile]` follows only that one, and a function, `impl` or
/// module with [`macro@skip`] is not measured; both also work inside `cfg_attr`.
///
/// # Errors
///
/// Any other item is a compile error:
///
/// ```compile_fail
/// #[vor::all_functions]
/// fn single() {}
/// ```
#[proc_macro_attribute]
pub fn all_functions(options: TokenStream, item: TokenStream) -> TokenStream {
    functions::expand(options.into(), item.into()).into()
}

/// Excludes an item from the [`macro@all_functions`] around it; the item itself stays unchanged.
///
/// ```
/// struct Grid(Vec<f32>);
///
/// #[vor::all_functions]
/// impl Grid {
///     fn smooth(&mut self) {
///         for index in 1..self.0.len() {
///             self.0[index] = (self.at(index - 1) + self.at(index)) / 2.0;
///         }
///     }
///
///     // Far shorter than the scope that would measure it.
///     #[vor::skip]
///     fn at(&self, index: usize) -> f32 {
///         self.0[index]
///     }
/// }
///
/// let mut grid = Grid(vec![0.0, 4.0]);
/// grid.smooth();
/// assert_eq!(grid.at(1), 2.0);
/// ```
///
/// # Errors
///
/// Options are compile errors.
#[proc_macro_attribute]
pub fn skip(options: TokenStream, item: TokenStream) -> TokenStream {
    functions::expand_skip(options.into(), item.into()).into()
}
