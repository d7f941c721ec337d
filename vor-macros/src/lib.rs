//! Attribute macros of the vor profiler: `#[profile]`, `#[all_functions]` and `#[skip]`.
//!
//! Programs use them through the facade crate `vor`, as `#[vor::profile]` and so on.
//!
//! An attribute measures a function by adding one statement to its body, and changes nothing else:
//! the signature, the attributes, the documentation and the positions that compiler errors point to
//! stay what they were. What is added:
//!
//! | function | expansion |
//! |---|---|
//! | `fn` | `{ vor::profile_scope!("name"); body }` |
//! | `async fn` | `{ ProfiledFuture::new(call_site!("name"), async move { body }).await }` |
//! | `const fn` | nothing, since it may run in the compiler |
//! | naked `fn` | nothing, since its body may only be assembly |
//!
//! The way of an attribute through this crate: `profile` takes one function and `functions` finds
//! those of an `impl`, a trait or a module; `options` reads what stands in the parentheses, `names`
//! says what scopes are called, and `instrument` rewrites one body.

use proc_macro::TokenStream;

mod profile;
mod functions;
mod options;
mod names;
mod instrument;

/// Measures every call of a function or method as one scope, named after the function.
///
/// Functions of every kind are accepted: free functions, methods, generic ones, `unsafe` and
/// `extern` ones, ones that return `impl Trait`. A `const fn` stays as it is, since it may run in
/// the compiler.
///
/// The scope of an `async fn` is open while its future is polled and closed while it waits, so that
/// the time of other tasks on the same thread is not counted. The future stays `Send` if it was.
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
/// | `args(x, key = expression)` | values recorded with every call: parameters by name, or any expression under a key |
/// | `category = "…"` | a group that viewers can filter by |
/// | `color = 0xRRGGBB` | the colour that viewers draw the scope in |
/// | `crate = path` | where the facade is found, for a renamed or re-exported `vor` |
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
///     #[vor::profile(name = "codec/pack", args(level = self.level, bytes = data.len(), last), category = "codec", color = 0x3388ff)]
///     fn pack(&self, data: &[u8], last: bool) -> usize {
///         data.len() + usize::from(last) + self.level as usize
///     }
/// }
///
/// assert_eq!(Codec { level: 3 }.pack(b"abc", true), 7);
/// ```
///
/// A crate that re-exports vor under another path says where it is:
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
/// Anything but a function with a body is a compile error, and so are an unknown option and an
/// argument that names no parameter:
///
/// ```compile_fail
/// #[vor::profile]
/// struct NotAFunction;
/// ```
#[proc_macro_attribute]
pub fn profile(options: TokenStream, item: TokenStream) -> TokenStream {
    profile::expand(options.into(), item.into()).into()
}

/// Measures every function of an `impl`, a trait or an inline module, as [`macro@profile`] does for
/// one.
///
/// | the function stands in | its scope is called |
/// |---|---|
/// | `impl Type` | `Type::method` |
/// | `impl Trait for Type` | `<Type as Trait>::method` |
/// | `trait Trait` (methods with a default body) | `Trait::method` |
/// | `mod outer { mod inner { … } }` | `outer::inner::function` |
///
/// Paths are cut to their last segment, and generic arguments are left out. An `impl` or a trait
/// inside of a module is measured under its own name, as if the attribute stood on it.
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
/// The options `category`, `color` and `crate` mean what they mean for [`macro@profile`], and hold
/// for every function. A function with a `#[profile]` of its own follows that one alone, and a
/// function, `impl` or module marked [`macro@skip`] is left out; both are also understood inside of
/// `cfg_attr`.
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

/// Leaves an item out of the [`macro@all_functions`] around it; the item itself stays as it is.
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
/// It takes no options; any is a compile error.
#[proc_macro_attribute]
pub fn skip(options: TokenStream, item: TokenStream) -> TokenStream {
    functions::expand_skip(options.into(), item.into()).into()
}

/// Returns `item` with `error` beside it.
///
/// The item is kept so that a mistake costs one error, and not one more for every use of what it
/// defines.
fn with_error(item: proc_macro2::TokenStream, error: &syn::Error) -> proc_macro2::TokenStream {
    let error = error.to_compile_error();
    quote::quote!(#item #error)
}
