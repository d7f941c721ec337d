//! Rewrites the body of one function.
//!
//! The body gains one statement, `profile_scope!("name")`, whose guard lives until its end. The
//! statement follows the items at the start of the body, because `clippy::items_after_statements`
//! reports items after a statement.
//!
//! The body of an `async fn` moves into a future of its own, which `ProfiledFuture` polls inside
//! the scope. A guard held across `.await` would count the time of other tasks, would close on
//! another thread's stack, and would make the future `!Send`. Unlike the signature of an `async
//! fn`, an `async` block does not give the compiler the type of the body. An early return that is
//! never taken does: `if let Some(value) = None::<Output> { return value; }`.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::{ParseStream, Parser};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{Error, Ident, Item, LitStr, Meta, PatIdent, ReturnType, Signature, Type, TypeImplTrait};

use crate::options::Options;

/// Returns whether a function can have a scope.
///
/// A `const fn` may run in the compiler, and the body of a naked function may only be assembly.
pub(crate) fn can_be_measured(attributes: &[syn::Attribute], signature: &Signature) -> bool {
    signature.constness.is_none() && !attributes.iter().any(is_naked)
}

fn is_naked(attribute: &syn::Attribute) -> bool {
    match &attribute.meta {
        Meta::Path(path) => path.is_ident("naked"),
        Meta::List(list) if list.path.is_ident("unsafe") => list
            .parse_args::<Ident>()
            .is_ok_and(|inner| inner == "naked"),
        _ => false,
    }
}

/// Checks that every argument without an expression is a parameter.
///
/// # Errors
///
/// Points to the first argument that names no parameter.
pub(crate) fn check_arguments(options: &Options, signature: &Signature) -> syn::Result<()> {
    let mut parameters = Bindings(Vec::new());
    for input in &signature.inputs {
        parameters.visit_fn_arg(input);
    }
    for argument in options
        .arguments
        .iter()
        .filter(|argument| argument.value.is_none())
    {
        if parameters.0.contains(&argument.key) {
            continue;
        }
        let key = &argument.key;
        let function = &signature.ident;
        let found = match parameters.0.as_slice() {
            [] => format!("`{function}` has no named parameters"),
            names => {
                let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
                format!("its parameters are {}", names.join(", "))
            }
        };
        let message = format!(
            "`{key}` is not a parameter of `{function}`: {found}; \
             an expression needs a key, as in `args({key} = …)`"
        );
        return Err(Error::new(key.span(), message));
    }
    Ok(())
}

/// The names that the parameters of a function bind, patterns included.
struct Bindings(Vec<Ident>);

impl<'ast> Visit<'ast> for Bindings {
    fn visit_pat_ident(&mut self, binding: &'ast PatIdent) {
        self.0.push(binding.ident.clone());
        visit::visit_pat_ident(self, binding);
    }

    // A type may contain a block, whose bindings are not parameters.
    fn visit_type(&mut self, _: &'ast Type) {}
}

/// Returns the statements of a function with a scope called `name` around them.
pub(crate) fn body(
    options: &Options,
    signature: &Signature,
    name: &str,
    body: TokenStream,
) -> TokenStream {
    // A scope gets the position where the path of its macro begins. That must be the function's
    // name: the attribute of an `impl` has one position for all its methods.
    let span = signature.ident.span();
    let krate = match &options.krate {
        Some(path) => located_at(span, path.clone()),
        None => quote_spanned!(span=> ::vor),
    };
    let name = match &options.name {
        Some(name) => name.clone(),
        None => LitStr::new(name, span),
    };
    let metadata = metadata(options);
    let arguments = options.arguments.iter().map(|argument| {
        let key = &argument.key;
        match &argument.value {
            Some(value) => quote!(, #key = #value),
            None => quote!(, #key = #key),
        }
    });
    let arguments = quote!(#(#arguments)*);

    if signature.asyncness.is_none() {
        let scope = quote_spanned!(span=> #krate::profile_scope!(#name #metadata #arguments););
        return insert_after_items(body, &scope);
    }

    let marker = (!arguments.is_empty()).then(|| {
        let name = LitStr::new(&format!("{} args", name.value()), name.span());
        quote_spanned!(span=> { #krate::profile_scope!(#name #metadata #arguments); })
    });
    let output = output_hint(&signature.output);
    let body = insert_after_items(body, &quote!(#marker #output));
    let site = quote_spanned!(span=> #krate::__private::call_site!(#name #metadata));
    quote!(#krate::__private::ProfiledFuture::new(#site, async move { #body }).await)
}

/// Moves `path` to `span`, without a change to how its names resolve.
fn located_at(span: Span, path: TokenStream) -> TokenStream {
    let moved = path.into_iter().map(|mut token| {
        token.set_span(token.span().located_at(span));
        token
    });
    moved.collect()
}

/// Returns `, @category = "…", @color = 0x…`, as far as given.
fn metadata(options: &Options) -> TokenStream {
    let category = options
        .category
        .iter()
        .map(|category| quote!(, @category = #category));
    let color = options.color.iter().map(|color| quote!(, @color = #color));
    quote!(#(#category)* #(#color)*)
}

/// Returns an early return that is never taken, which gives the compiler the type of an `async`
/// body.
fn output_hint(output: &ReturnType) -> Option<TokenStream> {
    let mut output = match output {
        ReturnType::Default => return Some(hint_of(&quote!(()), Span::call_site())),
        // A body that never returns needs no hint, and `!` is not a type on stable compilers.
        ReturnType::Type(_, ty) if matches!(**ty, Type::Never(_)) => return None,
        ReturnType::Type(_, ty) => Type::clone(ty),
    };
    let span = output.span();
    InferImplTrait.visit_type_mut(&mut output);
    match output {
        Type::Infer(_) => None,
        output => Some(hint_of(&output.to_token_stream(), span)),
    }
}

/// Returns the hint for the type `output` at `span`, where the compiler points if a body returns
/// another type.
fn hint_of(output: &TokenStream, span: Span) -> TokenStream {
    let span = Span::mixed_site().located_at(span);
    let value = Ident::new("value", span);
    quote_spanned! {span=>
        if let ::core::option::Option::Some(#value) = ::core::option::Option::None::<#output> {
            return #value;
        }
    }
}

/// Replaces `impl Trait`, which expressions cannot name, with `_`.
struct InferImplTrait;

impl VisitMut for InferImplTrait {
    fn visit_type_mut(&mut self, ty: &mut Type) {
        if let Type::ImplTrait(TypeImplTrait { impl_token, .. }) = ty {
            *ty = Type::Infer(syn::TypeInfer {
                underscore_token: syn::Token![_](impl_token.span),
            });
            return;
        }
        visit_mut::visit_type_mut(self, ty);
    }
}

/// Inserts `statement` into `body`, after the items at its start.
fn insert_after_items(body: TokenStream, statement: &TokenStream) -> TokenStream {
    let unchanged = body.clone();
    let split = |input: ParseStream<'_>| {
        let mut items = TokenStream::new();
        loop {
            let ahead = input.fork();
            match ahead.parse::<Item>() {
                // A macro call may expand to statements, which belong inside the scope.
                Ok(Item::Macro(call)) if call.ident.is_none() => break,
                Ok(Item::Verbatim(_)) | Err(_) => break,
                Ok(item) => item.to_tokens(&mut items),
            }
            // The same parse succeeded on the fork.
            input.parse::<Item>()?;
        }
        let rest: TokenStream = input.parse()?;
        Ok((items, rest))
    };
    match split.parse2(body) {
        Ok((items, rest)) => quote!(#items #statement #rest),
        Err(_) => quote!(#statement #unchanged),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Attribute;
    use syn::parse_quote;

    fn expand(options: TokenStream, signature: Signature, statements: TokenStream) -> String {
        let options =
            Options::parse(Attribute::Profile, options).unwrap_or_else(|error| panic!("{error}"));
        body(&options, &signature, "Type::work", statements).to_string()
    }

    #[test]
    fn a_scope_comes_before_the_statements() {
        let expansion = expand(
            quote!(),
            parse_quote!(fn work(x: u32) -> u32),
            quote!(let y = x; y + 1),
        );
        assert_eq!(
            expansion,
            quote!(::vor::profile_scope!("Type::work"); let y = x; y + 1).to_string()
        );
    }

    #[test]
    fn options_reach_the_scope_in_a_fixed_order() {
        let expansion = expand(
            quote!(
                args(x, half = x / 2),
                color = 0xff,
                category = "io",
                crate = telemetry::vor,
                name = "work!"
            ),
            parse_quote!(fn work(x: u32)),
            quote!(),
        );
        let expected = quote! {
            telemetry::vor::profile_scope!(
                "work!", @category = "io", @color = 0xff, x = x, half = x / 2
            );
        };
        assert_eq!(expansion, expected.to_string());
    }

    #[test]
    fn items_that_open_the_body_stay_in_front() {
        let items = quote! {
            use std::mem;
            const LEN: usize = 4;
            macro_rules! four { () => { LEN } }
        };
        let statements = quote!(let x = four!(); fn late() {} mem::drop(x););
        let expansion = expand(
            quote!(),
            parse_quote!(fn work()),
            quote!(#items #statements),
        );
        assert_eq!(
            expansion,
            quote!(#items ::vor::profile_scope!("Type::work"); #statements).to_string()
        );
    }

    #[test]
    fn a_macro_call_that_opens_the_body_is_measured() {
        for statements in [
            quote!(println!("x");),
            quote!(unsafe { call() }),
            quote!(async {}; 1),
            quote!(@ % $),
        ] {
            let expansion = expand(quote!(), parse_quote!(fn work()), statements.clone());
            assert_eq!(
                expansion,
                quote!(::vor::profile_scope!("Type::work"); #statements).to_string()
            );
        }
    }

    #[test]
    fn an_async_body_becomes_a_profiled_future() {
        let expansion = expand(
            quote!(category = "net"),
            parse_quote!(async fn work() -> Vec<u8>),
            quote!(read().await),
        );
        let expected = quote! {
            ::vor::__private::ProfiledFuture::new(
                ::vor::__private::call_site!("Type::work", @category = "net"),
                async move {
                    if let ::core::option::Option::Some(value) =
                        ::core::option::Option::None::<Vec<u8> >
                    {
                        return value;
                    }
                    read().await
                }
            ).await
        };
        assert_eq!(expansion, expected.to_string());
    }

    #[test]
    fn the_arguments_of_an_async_function_have_a_scope_of_their_own() {
        let expansion = expand(
            quote!(args(x)),
            parse_quote!(async fn work(x: u32) -> !),
            quote!(wait().await),
        );
        let expected = quote! {
            ::vor::__private::ProfiledFuture::new(
                ::vor::__private::call_site!("Type::work"),
                async move {
                    { ::vor::profile_scope!("Type::work args", x = x); }
                    wait().await
                }
            ).await
        };
        assert_eq!(expansion, expected.to_string());
    }

    #[test]
    fn the_output_of_an_async_body_is_hinted_where_it_can_be_named() {
        let hint =
            |signature: Signature| output_hint(&signature.output).map(|hint| hint.to_string());
        let hinted = |output: TokenStream| Some(hint_of(&output, Span::call_site()).to_string());
        assert_eq!(hint(parse_quote!(async fn f())), hinted(quote!(())));
        assert_eq!(
            hint(parse_quote!(async fn f() -> &str)),
            hinted(quote!(&str))
        );
        assert_eq!(
            hint(parse_quote!(async fn f() -> Result<impl Read, Error>)),
            hinted(quote!(Result<_, Error>))
        );
        assert_eq!(hint(parse_quote!(async fn f() -> impl Read)), None);
        assert_eq!(hint(parse_quote!(async fn f() -> !)), None);
    }

    #[test]
    fn parameters_are_found_in_patterns() {
        let signature: Signature = parse_quote!(fn work(
            &self,
            (a, Point { x, y: b }): (u8, Point),
            mut c: [u8; { let d = 1; d }],
            e @ 1..=2: u8
        ));
        let check = |options: TokenStream| {
            let options = Options::parse(Attribute::Profile, options)
                .unwrap_or_else(|error| panic!("{error}"));
            check_arguments(&options, &signature).map_err(|error| error.to_string())
        };
        assert_eq!(
            check(quote!(args(a, x, b, c, e, free = anything.at(all)))),
            Ok(())
        );
        let message = check(quote!(args(d))).expect_err("a name in a type is no parameter");
        assert!(
            message.starts_with(
                "`d` is not a parameter of `work`: its parameters are `a`, `x`, `b`, `c`, `e`"
            ),
            "{message}"
        );
    }

    #[test]
    fn constant_and_naked_functions_cannot_be_measured() {
        let function = |function: syn::ItemFn| can_be_measured(&function.attrs, &function.sig);
        assert!(function(parse_quote!(
            #[inline]
            unsafe extern "C" fn work() {}
        )));
        assert!(!function(parse_quote!(
            const fn work() {}
        )));
        assert!(!function(parse_quote!(
            #[unsafe(naked)]
            extern "C" fn work() {}
        )));
        assert!(!function(parse_quote!(
            #[naked]
            extern "C" fn work() {}
        )));
    }
}
