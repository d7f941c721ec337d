//! Tokens, from the compiler or, in unit tests, from `proc_macro2`.
//!
//! `proc_macro` works only while a macro runs. `proc_macro2` has the same interface and works
//! everywhere, so unit tests use it instead.

#[cfg(not(test))]
pub(crate) use proc_macro::{
    Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree,
};
#[cfg(test)]
pub(crate) use proc_macro2::{
    Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree,
};

/// Returns `group` with another content, at the same position.
pub(crate) fn with_content(group: &Group, content: TokenStream) -> Group {
    let mut changed = Group::new(group.delimiter(), content);
    changed.set_span(group.span());
    changed
}

/// Returns whether a word is a keyword, or `_`, neither of which can name a variable.
pub(crate) fn is_keyword(word: &str) -> bool {
    const KEYWORDS: &[&str] = &[
        "_", "abstract", "as", "async", "await", "become", "box", "break", "const", "continue",
        "crate", "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "if",
        "impl", "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv",
        "pub", "ref", "return", "Self", "self", "static", "struct", "super", "trait", "true",
        "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
    ];
    KEYWORDS.contains(&word)
}
