//! Items: their attributes, their kind, and where they end.
//!
//! The first words of an item give its kind. A `use`, `const`, `static` or `type` ends at its
//! semicolon. All other items end at the first braces or the first semicolon outside `<…>`.

use crate::attribute::{self, Meta};
use crate::cursor::Cursor;
use crate::names;
use crate::tokens::{Delimiter, Group, TokenStream, TokenTree, with_content};

/// The kinds of items that macros treat differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Function,
    Impl,
    Trait,
    Module,
    /// An item that ends at its semicolon.
    Statement,
    /// Any other item that begins with a keyword, or defines a macro.
    Other,
    /// A macro call, or something that is no item.
    Unknown,
}

/// One item.
pub(crate) struct Item<'a> {
    /// The attributes before it.
    pub attributes: Vec<Meta>,
    pub kind: Kind,
    /// The position after attributes and visibility.
    pub header: Cursor<'a>,
    /// The braces at its end.
    pub block: Option<&'a Group>,
    /// Whether its end was found.
    pub is_complete: bool,
    start: Cursor<'a>,
    block_start: Cursor<'a>,
    end: Cursor<'a>,
}

impl<'a> Item<'a> {
    /// Takes one item.
    pub(crate) fn take(cursor: &mut Cursor<'a>) -> Self {
        let start = *cursor;
        let attributes = attribute::take_outer(cursor);
        skip_visibility(cursor);
        let header = *cursor;
        let kind = Kind::of(header);
        if kind == Kind::Statement {
            while !cursor.is_empty() && !cursor.is_punct(0, ';') {
                cursor.next_atom();
            }
        } else {
            cursor.skip_until(is_end);
        }
        let block_start = *cursor;
        let block = cursor.take_group(Delimiter::Brace);
        let is_complete = block.is_some() || cursor.take_punct(';');
        Self {
            attributes,
            kind,
            header,
            block,
            is_complete,
            start,
            block_start,
            end: *cursor,
        }
    }

    /// Returns the name of a trait or a module, which follows its keyword.
    pub(crate) fn name(&self) -> String {
        let mut header = self.header;
        while !header.is_empty() && !header.take_word("trait") && !header.take_word("mod") {
            header.next();
        }
        header
            .take_ident()
            .map(names::ident_name)
            .unwrap_or_default()
    }

    /// Returns the item as it came.
    pub(crate) fn tokens(&self) -> TokenStream {
        self.start.until(self.end)
    }

    /// Returns the item with another content of its braces.
    pub(crate) fn with_content(&self, content: TokenStream) -> TokenStream {
        let mut tokens = self.start.until(self.block_start);
        let block = self.block.map(|block| with_content(block, content));
        tokens.extend(block.map(TokenTree::from));
        tokens
    }
}

impl Kind {
    fn of(mut header: Cursor<'_>) -> Self {
        while let Some(word) = header.word(0) {
            let next_word = header.word(1);
            let next_word = next_word.as_deref();
            match word.as_str() {
                "fn" => return Self::Function,
                "impl" => {
                    header.next();
                    names::skip_generics(&mut header);
                    // The functions of `impl const` may run in the compiler.
                    let is_const = header.is_word(0, "const");
                    return if is_const { Self::Other } else { Self::Impl };
                }
                "trait" => return Self::Trait,
                "mod" => return Self::Module,
                "use" | "type" => return Self::Statement,
                "struct" | "enum" | "macro" => return Self::Other,
                "extern" if next_word == Some("crate") => return Self::Statement,
                "extern" if header.is_group(1, Delimiter::Brace) => return Self::Other,
                "extern" if header.is_group(2, Delimiter::Brace) => return Self::Other,
                "extern" if matches!(header.peek(1), Some(TokenTree::Literal(_))) => {
                    header.next();
                }
                "const" if next_word.is_some_and(|next| BEFORE_FN.contains(&next)) => {}
                // The functions of these may run in the compiler, too.
                "const" if matches!(next_word, Some("impl" | "trait" | "auto")) => {
                    return Self::Other;
                }
                // A closure or a block, or else an item.
                "const" | "static" if matches!(next_word, None | Some("move" | "async")) => break,
                "const" | "static" => return Self::Statement,
                "union" if next_word.is_some() => return Self::Other,
                "async" | "extern" | "unsafe" | "safe" | "default" | "auto" => {}
                _ => break,
            }
            header.next();
        }
        if header.is_word(0, "macro_rules") && header.is_punct(1, '!') && header.word(2).is_some() {
            return Self::Other;
        }
        Self::Unknown
    }
}

/// The words that may follow `const` before a function.
const BEFORE_FN: [&str; 6] = ["async", "unsafe", "safe", "extern", "gen", "fn"];

/// Skips `pub` and `pub(…)`.
fn skip_visibility(cursor: &mut Cursor<'_>) {
    if cursor.take_word("pub") {
        cursor.take_group(Delimiter::Parenthesis);
    }
}

/// Returns whether the braces or the semicolon of an item follow.
pub(crate) fn is_end(cursor: Cursor<'_>) -> bool {
    cursor.is_group(0, Delimiter::Brace) || cursor.is_punct(0, ';')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::Buffer;

    /// Returns whether `text` begins with an item, for this module and for `syn`.
    fn is_item(text: &str) -> (bool, bool) {
        let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{error}"));
        let buffer = Buffer::new(tokens.clone());
        let mut cursor = buffer.start();
        let item = Item::take(&mut cursor);
        let is_item = item.kind != Kind::Unknown && item.is_complete && cursor.is_empty();
        (is_item, syn::parse2::<syn::Item>(tokens).is_ok())
    }

    #[test]
    fn items_and_statements_are_distinguished() {
        for item in [
            "use a::{b, c};",
            "const A: bool = 1 < 2;",
            "const _: () = { f() };",
            "const unsafe extern \"C\" fn f() {}",
            "static mut A: [u8; { 1 }] = [0];",
            "extern crate a;",
            "extern \"C\" { fn f(); }",
            "unsafe extern { fn f(); }",
            "extern fn f() {}",
            "async unsafe fn f() -> A<{ 1 }> where A<{ 2 }>: Fn(A) -> B {}",
            "unsafe impl<T> A for B<{ 1 }> {}",
            "impl !A for B {}",
            "unsafe auto trait A {}",
            "trait A = B<{ 1 }>;",
            "struct A<const N: usize = { 1 }>(B<{ 2 }>) where A: B;",
            "pub(in a::b) enum A {}",
            "union A { a: u8 }",
            "type A = B<{ 1 }>;",
            "macro_rules! a { () => {} }",
            "#[a] pub(crate) mod c;",
        ] {
            assert_eq!(is_item(item), (true, true), "{item}");
        }
        for statement in [
            "unsafe { f() }",
            "unsafe",
            "default",
            "async {}",
            "async move { 1 };",
            "const { 1 };",
            "const || 1;",
            "static move || 1;",
            "union = 2;",
            "auto.f();",
            "default(1);",
            "if !a {}",
            "#[a] let b = 1;",
            "fn f()",
        ] {
            assert!(!is_item(statement).0, "{statement}");
        }
    }

    #[test]
    fn constant_traits_and_their_implementations_end_with_their_braces() {
        for item in [
            "const trait A { fn f(); }",
            "const unsafe trait A {}",
            "const auto trait A {}",
            "const impl A for B { fn f() {} }",
            "impl const A for B { fn f() {} }",
        ] {
            assert!(is_item(item).0, "{item}");
        }
    }
}
