//! Tokens that are written as text, with holes.

use crate::tokens::{Literal, Span, TokenStream, TokenTree, with_content};

/// Returns the tokens of `text` at `span`, with each `$name` replaced by the tokens of that name.
///
/// The tokens that fill a hole keep their own positions. Text has a space between characters that
/// belong to different tokens, such as `< $output >`.
pub(crate) fn fill(span: Span, text: &str, holes: &[(&str, &TokenStream)]) -> TokenStream {
    // The text is a literal of this crate, and tests expand each, so it is always valid.
    let template: TokenStream = text.parse().unwrap_or_default();
    fill_tokens(span, template, holes)
}

fn fill_tokens(span: Span, template: TokenStream, holes: &[(&str, &TokenStream)]) -> TokenStream {
    let mut filled = TokenStream::new();
    let mut template = template.into_iter();
    while let Some(mut token) = template.next() {
        match &mut token {
            TokenTree::Punct(punct) if punct.as_char() == '$' => {
                let name = template.next().map(|name| name.to_string());
                let tokens = holes
                    .iter()
                    .find(|(hole, _)| name.as_deref() == Some(*hole));
                filled.extend(tokens.map(|(_, tokens)| TokenStream::clone(tokens)));
                continue;
            }
            TokenTree::Group(group) => {
                *group = with_content(group, fill_tokens(span, group.stream(), holes));
            }
            _ => {}
        }
        token.set_span(span);
        filled.extend([token]);
    }
    filled
}

/// Returns one token as a stream.
pub(crate) fn single(token: impl Into<TokenTree>) -> TokenStream {
    TokenStream::from(token.into())
}

/// Returns a string literal at `span`.
pub(crate) fn string(text: &str, span: Span) -> Literal {
    let mut literal = Literal::string(text);
    literal.set_span(span);
    literal
}
