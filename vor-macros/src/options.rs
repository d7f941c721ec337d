//! The options in the parentheses of an attribute.
//!
//! `name = "…"`, `args(x, key = expression)`, `category = "…"`, `color = 0xRRGGBB` and `crate =
//! path`, in any order, each at most once. `#[all_functions]` takes only the last three, because
//! the others describe a single function.

use crate::cursor::{Buffer, Cursor};
use crate::error::{Error, Result};
use crate::tokens::{Delimiter, Group, Ident, Literal, TokenStream, TokenTree, is_keyword};
use crate::{expression, literal};

/// The largest colour: eight bits each of red, green and blue.
const MAX_COLOR: u32 = 0x00ff_ffff;

/// The options of one attribute.
#[derive(Default)]
pub(crate) struct Options {
    /// The path of the facade crate, if it is not `::vor`.
    pub krate: Option<TokenStream>,
    /// The scope's name, if it is not the function's.
    pub name: Option<Text>,
    /// The values to record with each call.
    pub arguments: Vec<Argument>,
    /// The group of the scope, as a viewer shows it.
    pub category: Option<Text>,
    /// The colour of the scope, `0xRRGGBB`.
    pub color: Option<Literal>,
}

/// A string literal.
pub(crate) struct Text {
    pub literal: Literal,
    pub value: String,
}

/// One value to record.
pub(crate) struct Argument {
    /// The key under which it is recorded.
    pub key: Ident,
    /// The expression to record; `None` for the parameter named like the key.
    pub value: Option<TokenStream>,
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
    pub(crate) fn parse(attribute: Attribute, tokens: TokenStream) -> Result<Self> {
        let buffer = Buffer::new(tokens);
        let mut cursor = buffer.start();
        let mut options = Self::default();
        let mut seen: Vec<String> = Vec::new();
        while !cursor.is_empty() {
            let Some(option) = cursor.take_ident() else {
                return Err(cursor.error(&format!("expected {}", attribute.options())));
            };
            let word = option.to_string();
            if seen.contains(&word) {
                let message = format!("the option `{option}` is given twice");
                return Err(Error::new(option.span(), message));
            }
            options.parse_option(attribute, option, &word, &mut cursor)?;
            seen.push(word);
            take_comma(&mut cursor)?;
        }
        Ok(options)
    }

    fn parse_option(
        &mut self,
        attribute: Attribute,
        option: &Ident,
        word: &str,
        cursor: &mut Cursor<'_>,
    ) -> Result<()> {
        let for_one_function = attribute == Attribute::Profile;
        match word {
            "name" if for_one_function => {
                let name = parse_text(option, cursor)?;
                if name.value.is_empty() {
                    let message = "the name of a scope must not be empty";
                    return Err(Error::new(name.literal.span(), message));
                }
                self.name = Some(name);
            }
            "args" if for_one_function => {
                let Some(list) = cursor.take_group(Delimiter::Parenthesis) else {
                    let message = "`args` needs a list: `args(x, key = …)`";
                    return Err(Error::new(option.span(), message));
                };
                self.arguments = parse_arguments(list)?;
            }
            "category" => self.category = Some(parse_text(option, cursor)?),
            "color" => self.color = Some(parse_color(option, cursor)?),
            "crate" => {
                parse_equals(option, cursor)?;
                self.krate = Some(parse_path(cursor)?);
            }
            "name" | "args" => {
                let message = format!(
                    "`{option}` describes a single function: \
                     put it into a `#[vor::profile({option} …)]` on that one"
                );
                return Err(Error::new(option.span(), message));
            }
            _ => {
                let expected = attribute.options();
                let message = match replacement(word).filter(|_| for_one_function) {
                    Some(instead) => {
                        format!("expected {expected}; instead of `{option}` {instead}")
                    }
                    None => format!("expected {expected}, found `{option}`"),
                };
                return Err(Error::new(option.span(), message));
            }
        }
        Ok(())
    }
}

/// Returns the replacement of an option that another profiler's attribute has: `label`, `log`,
/// `future` and `impl_type` of hotpath, `properties`, `enter_on_poll` and `short_name` of fastrace,
/// and `fields` of `tracing`.
fn replacement(word: &str) -> Option<&'static str> {
    Some(match word {
        "label" => "write `name = …`",
        "log" => "call `vor::message!` before the function returns",
        "properties" | "fields" => "write `args(key = …)`",
        "enter_on_poll" | "future" => "write nothing: each poll of an `async fn` is a scope",
        "impl_type" => "write `name = \"Type::function\"`",
        "short_name" => "write nothing: names have no path of the module",
        _ => return None,
    })
}

/// Takes the comma behind an element, unless that was the last one.
fn take_comma(cursor: &mut Cursor<'_>) -> Result<()> {
    if cursor.is_empty() || cursor.take_punct(',') {
        return Ok(());
    }
    Err(cursor.error("expected `,`"))
}

/// Parses the `=` after `key`. The error points to the key, since nothing may follow it.
fn parse_equals(key: &Ident, cursor: &mut Cursor<'_>) -> Result<()> {
    if cursor.take_punct('=') {
        return Ok(());
    }
    let message = format!("`{key}` needs a value: `{key} = …`");
    Err(Error::new(key.span(), message))
}

/// Parses `= "…"` after `key`.
fn parse_text(key: &Ident, cursor: &mut Cursor<'_>) -> Result<Text> {
    parse_equals(key, cursor)?;
    let start = *cursor;
    let text = cursor.take_literal().and_then(|literal| {
        let value = literal::string_value(literal)?;
        let literal = literal.clone();
        Some(Text { literal, value })
    });
    text.ok_or_else(|| start.error("expected string literal"))
}

/// Parses `= 0xRRGGBB` after `key`.
fn parse_color(key: &Ident, cursor: &mut Cursor<'_>) -> Result<Literal> {
    parse_equals(key, cursor)?;
    let start = *cursor;
    let is_negative = cursor.take_punct('-');
    let color = cursor
        .take_literal()
        .filter(|color| literal::is_integer(color));
    let color = color.ok_or_else(|| start.error("expected integer literal"))?;
    if is_negative || literal::integer_value(color).is_none_or(|value| value > MAX_COLOR) {
        let sign = if is_negative { "-" } else { "" };
        let message = format!("expected a colour from 0x000000 to 0xffffff, found `{sign}{color}`");
        return Err(start.error(&message));
    }
    Ok(color.clone())
}

/// Parses a path without generic arguments.
fn parse_path(cursor: &mut Cursor<'_>) -> Result<TokenStream> {
    let start = *cursor;
    cursor.take_path_separator();
    parse_key(cursor, &PATH_KEYWORDS)?;
    while cursor.take_path_separator() {
        if parse_key(cursor, &PATH_KEYWORDS).is_err() {
            return Err(cursor.error("expected path segment after `::`"));
        }
    }
    Ok(start.until(*cursor))
}

/// The keywords that a path may contain.
const PATH_KEYWORDS: [&str; 4] = ["crate", "self", "Self", "super"];

/// Takes an identifier, or one of `keywords`.
fn parse_key<'a>(cursor: &mut Cursor<'a>, keywords: &[&str]) -> Result<&'a Ident> {
    if let Some(word) = cursor.word(0)
        && is_keyword(&word)
        && !keywords.contains(&word.as_str())
    {
        return Err(cursor.error(&format!("expected identifier, found keyword `{word}`")));
    }
    let key = cursor.take_ident();
    key.ok_or_else(|| cursor.error("expected identifier"))
}

/// Parses the list of `args`.
fn parse_arguments(list: &Group) -> Result<Vec<Argument>> {
    let buffer = Buffer::of(list);
    let mut cursor = buffer.start();
    let mut arguments = Vec::new();
    let mut seen = Vec::new();
    while !cursor.is_empty() {
        let argument = parse_argument(&mut cursor)?;
        seen.push(argument.key.to_string());
        arguments.push(argument);
        take_comma(&mut cursor)?;
    }
    for (index, (argument, key)) in arguments.iter().zip(&seen).enumerate() {
        if seen[..index].contains(key) {
            let message = format!("the argument `{key}` is given twice");
            return Err(Error::new(argument.key.span(), message));
        }
    }
    Ok(arguments)
}

/// Parses `x` or `key = expression`.
fn parse_argument(cursor: &mut Cursor<'_>) -> Result<Argument> {
    if cursor.is_word(0, "self") {
        let message = "`self` is not a value to record: \
            give a key and an expression, such as `args(len = self.len())`";
        return Err(cursor.error(message));
    }
    let key = parse_key(cursor, &[])?.clone();
    let mut value = None;
    if cursor.take_punct('=') {
        let start = *cursor;
        let starts_expression = match cursor.peek(0) {
            Some(TokenTree::Punct(punct)) => "-!*&<|.:'#".contains(punct.as_char()),
            next => next.is_some(),
        };
        if !starts_expression {
            return Err(cursor.error("expected an expression"));
        }
        expression::skip(cursor);
        value = Some(start.until(*cursor));
    }
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
        assert_eq!(options.name.map(|name| name.value).as_deref(), Some("pack"));
        assert_eq!(
            options.category.map(|category| category.value).as_deref(),
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
    fn colours_go_up_to_white() {
        let color = profile(quote!(color = 0xffffff)).color;
        assert_eq!(color.unwrap().to_string(), "0xffffff");
    }

    #[test]
    fn options_of_other_profilers_name_their_replacement() {
        for (option, replacement) in [
            (quote!(label = "x"), "write `name = …`"),
            (quote!(log = true), "call `vor::message!`"),
            (quote!(properties = {}), "write `args(key = …)`"),
            (quote!(fields(x)), "write `args(key = …)`"),
            (quote!(enter_on_poll = true), "write nothing: each poll"),
            (quote!(future = true), "write nothing: each poll"),
            (quote!(impl_type = "T"), "write `name = \"Type::function\"`"),
            (
                quote!(short_name = true),
                "write nothing: names have no path",
            ),
        ] {
            let error = error(Attribute::Profile, option);
            assert!(error.contains(replacement), "{error}");
        }
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
