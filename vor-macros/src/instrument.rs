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

use crate::attribute::{self, Meta};
use crate::cursor::{Atom, Buffer, Cursor};
use crate::error::{Error, Result};
use crate::item::{Item, Kind};
use crate::options::Options;
use crate::pattern;
use crate::signature::Signature;
use crate::template::{fill, single, string};
use crate::tokens::{Group, Ident, Span, TokenStream, TokenTree, with_content};

/// Returns whether a function can have a scope.
///
/// A `const fn` may run in the compiler, and the body of a naked function may only be assembly.
pub(crate) fn can_be_measured(attributes: &[Meta], signature: &Signature) -> bool {
    !signature.is_const && !attributes.iter().any(Meta::is_naked)
}

/// Checks that every argument without an expression is a parameter.
///
/// # Errors
///
/// Points to the first argument that names no parameter.
pub(crate) fn check_arguments(options: &Options, signature: &Signature) -> Result<()> {
    let parameters = pattern::names_in(&signature.parameters);
    let parameters: Vec<_> = parameters.iter().map(Ident::to_string).collect();
    for argument in options
        .arguments
        .iter()
        .filter(|argument| argument.value.is_none())
    {
        let key = &argument.key;
        if parameters.contains(&key.to_string()) {
            continue;
        }
        let function = &signature.name;
        let found = match parameters.as_slice() {
            [] => format!("`{function}` has no named parameters"),
            names => format!("its parameters are `{}`", names.join("`, `")),
        };
        let message = format!(
            "`{key}` is not a parameter of `{function}`: {found}; \
             an expression needs a key, as in `args({key} = …)`"
        );
        return Err(Error::new(key.span(), message));
    }
    Ok(())
}

/// Returns the content of `block`, the braces of a function, with a scope called `name` in it.
pub(crate) fn block(
    options: &Options,
    signature: &Signature,
    name: &str,
    block: &Group,
) -> TokenStream {
    let buffer = Buffer::of(block);
    let start = buffer.start();
    let mut statements = start;
    attribute::take_inner(&mut statements);
    let mut content = start.until(statements);
    content.extend(body(options, signature, name, statements.rest()));
    content
}

/// Returns the statements of a function with a scope called `name` around them.
fn body(options: &Options, signature: &Signature, name: &str, body: TokenStream) -> TokenStream {
    // A scope gets the position where the path of its macro begins. This must be the function's
    // name: the attribute of an `impl` has one position for all its methods.
    let span = signature.name.span();
    let call_site = Span::call_site();
    let krate = match &options.krate {
        Some(path) => located_at(span, path.clone()),
        None => fill(span, "::vor", &[]),
    };
    let (name, literal) = match &options.name {
        Some(name) => (name.value.as_str(), name.literal.clone()),
        None => (name, string(name, span)),
    };
    let marker_name = single(string(&format!("{name} args"), literal.span()));
    let name = single(literal);
    let metadata = metadata(options);
    let mut arguments = TokenStream::new();
    for argument in &options.arguments {
        let key = single(argument.key.clone());
        let value = argument.value.as_ref().unwrap_or(&key);
        let holes = [("key", &key), ("value", value)];
        arguments.extend(fill(call_site, ", $key = $value", &holes));
    }
    let scope = |name| {
        let holes = [
            ("krate", &krate),
            ("name", name),
            ("metadata", &metadata),
            ("arguments", &arguments),
        ];
        fill(
            span,
            "$krate::profile_scope!($name $metadata $arguments);",
            &holes,
        )
    };
    if !signature.is_async {
        return insert_after_items(body, scope(&name));
    }

    let mut start = TokenStream::new();
    if !arguments.is_empty() {
        start.extend(fill(span, "{ $scope }", &[("scope", &scope(&marker_name))]));
    }
    start.extend(output_hint(signature.output.as_ref()));
    let holes = [("krate", &krate), ("name", &name), ("metadata", &metadata)];
    let site = fill(
        span,
        "$krate::__private::call_site!($name $metadata)",
        &holes,
    );
    let body = insert_after_items(body, start);
    fill(
        call_site,
        "$krate::__private::ProfiledFuture::new($site, async move { $body }).await",
        &[("krate", &krate), ("site", &site), ("body", &body)],
    )
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
    let mut metadata = TokenStream::new();
    let category = options.category.as_ref().map(|category| &category.literal);
    for (text, value) in [
        (", @category = $value", category),
        (", @color = $value", options.color.as_ref()),
    ] {
        let value = value.cloned().map(single);
        metadata.extend(value.map(|value| fill(Span::call_site(), text, &[("value", &value)])));
    }
    metadata
}

/// Returns an early return that is never taken, which gives the compiler the type of an `async`
/// body.
fn output_hint(output: Option<&TokenStream>) -> Option<TokenStream> {
    let Some(output) = output else {
        let unit = fill(Span::call_site(), "()", &[]);
        return Some(hint_of(&unit, Span::call_site()));
    };
    let buffer = Buffer::new(output.clone());
    let start = buffer.start();
    let span = start.peek(0)?.span();
    let output = infer_impl_trait(start);
    let is_inferred =
        start.is_word(0, "impl") && Buffer::new(output.clone()).start().peek(1).is_none();
    // A body that never returns needs no hint, and `!` is not a type on stable compilers.
    let is_never = start.is_punct(0, '!');
    (!is_inferred && !is_never).then(|| hint_of(&output, span))
}

/// Returns the hint for the type `output` at `span`, where the compiler points if a body returns
/// another type.
fn hint_of(output: &TokenStream, span: Span) -> TokenStream {
    fill(
        Span::mixed_site().located_at(span),
        "if let ::core::option::Option::Some(value) = ::core::option::Option::None:: < $output > {
            return value;
        }",
        &[("output", output)],
    )
}

/// Replaces `impl Trait`, which expressions cannot name, with `_`.
fn infer_impl_trait(mut ty: Cursor<'_>) -> TokenStream {
    let mut inferred = TokenStream::new();
    let mut is_macro = false;
    while let Some(atom) = ty.next_atom() {
        let token = match atom {
            Atom::Token(TokenTree::Ident(word)) if word.to_string().as_str() == "impl" => {
                ty.skip_until(|at| [',', ';', '=', '>'].iter().any(|end| at.is_punct(0, *end)));
                Ident::new("_", word.span()).into()
            }
            Atom::Token(TokenTree::Group(group)) | Atom::Undelimited(group) if !is_macro => {
                let content = infer_impl_trait(Buffer::of(group).start());
                with_content(group, content).into()
            }
            Atom::Token(token) => token.clone(),
            Atom::Undelimited(group) => group.clone().into(),
        };
        is_macro = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '!');
        inferred.extend([token]);
    }
    inferred
}

/// Inserts `statement` into `body`, after the items at its start.
fn insert_after_items(body: TokenStream, statement: TokenStream) -> TokenStream {
    let buffer = Buffer::new(body);
    let start = buffer.start();
    let mut statements = start;
    let mut next = start;
    loop {
        let item = Item::take(&mut next);
        // A macro call may expand to statements, which belong inside the scope.
        if item.kind == Kind::Unknown || !item.is_complete {
            break;
        }
        statements = next;
    }
    let mut inserted = start.until(statements);
    inserted.extend(statement);
    inserted.extend(statements.rest());
    inserted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Attribute;
    use quote::quote;

    fn signature(tokens: TokenStream) -> Signature {
        Signature::parse(Buffer::new(tokens).start()).unwrap_or_else(|error| panic!("{error}"))
    }

    fn expand(options: TokenStream, function: TokenStream, statements: TokenStream) -> String {
        let options =
            Options::parse(Attribute::Profile, options).unwrap_or_else(|error| panic!("{error}"));
        body(&options, &signature(function), "Type::work", statements).to_string()
    }

    #[test]
    fn a_scope_comes_before_the_statements() {
        let expansion = expand(
            quote!(),
            quote!(fn work(x: u32) -> u32),
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
            quote!(fn work(x: u32)),
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
        let expansion = expand(quote!(), quote!(fn work()), quote!(#items #statements));
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
            let expansion = expand(quote!(), quote!(fn work()), statements.clone());
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
            quote!(async fn work() -> Vec<u8>),
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
            quote!(async fn work(x: u32) -> !),
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
        let hint = |function: TokenStream| {
            output_hint(signature(function).output.as_ref()).map(|hint| hint.to_string())
        };
        let hinted = |output: TokenStream| Some(hint_of(&output, Span::call_site()).to_string());
        assert_eq!(hint(quote!(async fn f())), hinted(quote!(())));
        assert_eq!(hint(quote!(async fn f() -> &str)), hinted(quote!(&str)));
        assert_eq!(
            hint(quote!(async fn f() -> Result<impl Read, Error>)),
            hinted(quote!(Result<_, Error>))
        );
        assert_eq!(hint(quote!(async fn f() -> u8)), hinted(quote!(u8)));
        // A macro may give `impl` another meaning.
        assert_eq!(
            hint(quote!(async fn f() -> A<(impl Read, B), m!(impl Read)>)),
            hinted(quote!(A<(_, B), m!(impl Read)>))
        );
        assert_eq!(hint(quote!(async fn f() -> impl Read)), None);
        assert_eq!(hint(quote!(async fn f() -> !)), None);
    }

    #[test]
    fn parameters_are_found_in_patterns() {
        let signature = signature(quote!(fn work(
            &self,
            (a, Point { x, y: b }): (u8, Point),
            mut c: [u8; { let d = 1; d }],
            e @ 1..=2: u8
        )));
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
        let function = |function: TokenStream| {
            let buffer = Buffer::new(function);
            let item = Item::take(&mut buffer.start());
            let signature = Signature::parse(item.header).expect("the function has a signature");
            can_be_measured(&item.attributes, &signature)
        };
        assert!(function(quote!(
            #[inline]
            unsafe extern "C" fn work() {}
        )));
        assert!(!function(quote!(
            const fn work() {}
        )));
        assert!(!function(quote!(
            #[unsafe(naked)]
            extern "C" fn work() {}
        )));
        assert!(!function(quote!(
            #[naked]
            extern "C" fn work() {}
        )));
        assert!(function(quote!(
            #[unsafe(no_mangle)]
            #[link(naked)]
            extern "C" fn work() {}
        )));
    }
}
