//! The options in the parentheses of an attribute.
//!
//! `name = "…"`, `args(x, key = expression)`, `category = "…"`, `color = 0xRRGGBB` and `crate =
//! path`, in any order, each at most once. `#[all_functions]` takes only the last three, because
//! the others describe a single function.

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, LitInt, LitStr, Path, Token, parenthesized, token};

/// The largest colour: eight bits each of red, green and blue.
const MAX_COLOR: u32 = 0x00ff_ffff;

/// The options of one attribute.
#[derive(Default)]
pub(crate) struct Options {
    /// The path of the facade crate, if it is not `::vor`.
    pub krate: Option<TokenStream>,
    /// The scope's name, if it is not the function's.
    pub name: Option<LitStr>,
    /// The values to record with each call.
    pub arguments: Vec<Argument>,
    /// The group of the scope, as a viewer shows it.
    pub category: Option<LitStr>,
    /// The colour of the scope, `0xRRGGBB`.
    pub color: Option<LitInt>,
}

/// One value to record.
pub(crate) struct Argument {
    /// The key under which it is recorded.
    pub key: Ident,
    /// The expression to record; `None` for the parameter named like the key.
    pub value: Option<Expr>,
}

/// The attribute to which the options belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attribute {
    /// `#[profile]`.
    Profile,
    /// `#[all_functions]`.
    AllFunctions,
}

impl Attribute {
    /// Returns the options that it takes, for an error message.
    fn options(self) -> &'static str {
        match self {
            Self::Profile => "`name`, `args`, `category`, `color` or `crate`",
            Self::AllFunctions => "`category`, `color` or `crate`",
        }
    }
}

impl Options {
    /// Reads the tokens between the parentheses of `attribute`.
    ///
    /// # Errors
    ///
    /// An unknown or repeated option, or one with a value of the wrong kind; the error points to
    /// it.
    pub(crate) fn parse(attribute: Attribute, tokens: TokenStream) -> syn::Result<Self> {
        (|input: ParseStream<'_>| Self::parse_stream(attribute, input)).parse2(tokens)
    }

    fn parse_stream(attribute: Attribute, input: ParseStream<'_>) -> syn::Result<Self> {
        let mut options = Self::default();
        let mut seen: Vec<Ident> = Vec::new();
        while !input.is_empty() {
            if !input.peek(Ident::peek_any) {
                return Err(input.error(format!("expected {}", attribute.options())));
            }
            let option = input.call(Ident::parse_any)?;
            if seen.contains(&option) {
                return Err(Error::new(
                    option.span(),
                    format!("the option `{option}` is given twice"),
                ));
            }
            options.parse_option(attribute, &option, input)?;
            seen.push(option);
            if input.is_empty() {
                break;
            }
            input.parse::<Token![,]>()?;
        }
        Ok(options)
    }

    fn parse_option(
        &mut self,
        attribute: Attribute,
        option: &Ident,
        input: ParseStream<'_>,
    ) -> syn::Result<()> {
        let for_one_function = attribute == Attribute::Profile;
        match option.to_string().as_str() {
            "name" if for_one_function => {
                let name: LitStr = parse_value(option, input)?;
                if name.value().is_empty() {
                    return Err(Error::new(
                        name.span(),
                        "the name of a scope must not be empty",
                    ));
                }
                self.name = Some(name);
            }
            "args" if for_one_function => {
                if !input.peek(token::Paren) {
                    return Err(Error::new(
                        option.span(),
                        "`args` needs a list: `args(x, key = …)`",
                    ));
                }
                let list;
                parenthesized!(list in input);
                let arguments = Punctuated::<Argument, Token![,]>::parse_terminated_with(
                    &list,
                    parse_argument,
                )?;
                for argument in arguments {
                    if self
                        .arguments
                        .iter()
                        .any(|earlier| earlier.key == argument.key)
                    {
                        let message = format!("the argument `{}` is given twice", argument.key);
                        return Err(Error::new(argument.key.span(), message));
                    }
                    self.arguments.push(argument);
                }
            }
            "category" => self.category = Some(parse_value(option, input)?),
            "color" => {
                let color: LitInt = parse_value(option, input)?;
                if !color.suffix().is_empty()
                    || !color
                        .base10_parse::<u32>()
                        .is_ok_and(|value| value <= MAX_COLOR)
                {
                    let message =
                        format!("expected a colour from 0x000000 to 0xffffff, found `{color}`");
                    return Err(Error::new(color.span(), message));
                }
                self.color = Some(color);
            }
            "crate" => {
                parse_equals(option, input)?;
                self.krate = Some(input.call(Path::parse_mod_style)?.into_token_stream());
            }
            "name" | "args" => {
                let message = format!(
                    "`{option}` describes a single function: \
                     put it into a `#[vor::profile({option} …)]` on that one"
                );
                return Err(Error::new(option.span(), message));
            }
            _ => {
                let message = format!("expected {}, found `{option}`", attribute.options());
                return Err(Error::new(option.span(), message));
            }
        }
        Ok(())
    }
}

/// Parses the `= value` after `key`.
fn parse_value<T: syn::parse::Parse>(key: &Ident, input: ParseStream<'_>) -> syn::Result<T> {
    parse_equals(key, input)?;
    input.parse()
}

/// Parses the `=` after `key`. The error points to the key, since nothing may follow it.
fn parse_equals(key: &Ident, input: ParseStream<'_>) -> syn::Result<()> {
    match input.parse::<Token![=]>() {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::new(
            key.span(),
            format!("`{key}` needs a value: `{key} = …`"),
        )),
    }
}

/// Parses `x` or `key = expression`.
fn parse_argument(input: ParseStream<'_>) -> syn::Result<Argument> {
    if input.peek(Token![self]) {
        let message = "`self` is not a value to record: \
            give a key and an expression, such as `args(len = self.len())`";
        return Err(input.error(message));
    }
    let key: Ident = input.parse()?;
    let value = if input.peek(Token![=]) {
        Some(parse_value(&key, input)?)
    } else {
        None
    };
    Ok(Argument { key, value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::quote;

    fn profile(tokens: TokenStream) -> Options {
        Options::parse(Attribute::Profile, tokens).unwrap_or_else(|error| panic!("{error}"))
    }

    fn error(attribute: Attribute, tokens: TokenStream) -> String {
        match Options::parse(attribute, tokens) {
            Ok(_) => panic!("the options should be refused"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn every_option_is_read() {
        let options = profile(quote! {
            name = "pack", args(x, bytes = data.len(),), category = "io", color = 0x00ff00,
            crate = crate::telemetry::vor,
        });
        assert_eq!(
            options.name.map(|name| name.value()).as_deref(),
            Some("pack")
        );
        assert_eq!(
            options.category.map(|category| category.value()).as_deref(),
            Some("io")
        );
        assert_eq!(
            options.color.map(|color| color.to_string()).as_deref(),
            Some("0x00ff00")
        );
        let krate = options.krate.map(|path| path.to_string());
        assert_eq!(krate, Some(quote!(crate::telemetry::vor).to_string()));
        let arguments: Vec<_> = options
            .arguments
            .iter()
            .map(|argument| {
                (
                    argument.key.to_string(),
                    argument
                        .value
                        .as_ref()
                        .map(|value| quote!(#value).to_string()),
                )
            })
            .collect();
        assert_eq!(
            arguments,
            [
                ("x".to_owned(), None),
                ("bytes".to_owned(), Some(quote!(data.len()).to_string()))
            ]
        );
    }

    #[test]
    fn mistakes_are_named() {
        let profile = Attribute::Profile;
        assert_eq!(
            error(profile, quote!(nmae = "x")),
            "expected `name`, `args`, `category`, `color` or `crate`, found `nmae`"
        );
        assert_eq!(
            error(profile, quote!(name = "x", name = "y")),
            "the option `name` is given twice"
        );
        assert_eq!(
            error(profile, quote!(args(x, x))),
            "the argument `x` is given twice"
        );
        assert_eq!(
            error(profile, quote!(name = "")),
            "the name of a scope must not be empty"
        );
        assert_eq!(
            error(profile, quote!(color = 0x1000000)),
            "expected a colour from 0x000000 to 0xffffff, found `0x1000000`"
        );
        assert!(error(profile, quote!(args(self))).starts_with("`self` is not a value to record"));
        assert_eq!(error(profile, quote!(name = 3)), "expected string literal");
        assert_eq!(
            error(profile, quote!(args = x)),
            "`args` needs a list: `args(x, key = …)`"
        );
        assert_eq!(
            error(profile, quote!(category)),
            "`category` needs a value: `category = …`"
        );
        assert_eq!(
            error(profile, quote!("decode")),
            "expected `name`, `args`, `category`, `color` or `crate`"
        );
    }

    #[test]
    fn all_functions_refuses_what_fits_one_function_only() {
        for tokens in [quote!(name = "x"), quote!(args(x))] {
            assert!(error(Attribute::AllFunctions, tokens).contains("describes a single function"));
        }
        assert_eq!(
            error(Attribute::AllFunctions, quote!(prefix = "x")),
            "expected `category`, `color` or `crate`, found `prefix`"
        );
    }
}
