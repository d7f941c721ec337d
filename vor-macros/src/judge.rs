//! `syn` judges which functions, names and parameters the macros find in this workspace.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::{env, fs};

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::visit::{self, Visit};

use crate::cursor::{Buffer, Cursor};
use crate::item::{Item, Kind};
use crate::signature::Signature;
use crate::{attribute, names, pattern};

#[test]
fn functions_and_parameters_are_those_that_syn_finds() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    if !workspace.join("vor/src/lib.rs").exists() {
        eprintln!("SKIPPED: the sources of the workspace are not beside this package");
        return;
    }
    let mut files = Vec::new();
    find_files(&workspace, &mut files);
    let (left, right) = files.split_at(files.len() / 2);
    let check = |files: &[PathBuf]| files.iter().map(|file| check_file(file)).sum::<usize>();
    let count = std::thread::scope(|threads| {
        let right = threads.spawn(|| check(right));
        check(left) + right.join().unwrap()
    });
    assert!(count > 2000, "only {count} functions were compared");
}

#[test]
fn rare_patterns_and_types_are_those_that_syn_finds() {
    for text in [
        // Without a space behind the colon.
        "fn f(a:&u8, b:&'static u8, c:*const u8) {}",
        "fn f((0..A | ..=B | C::D..=E | -1..): u8, f: u8) {}",
        "fn f(m!(a): u8, const { A }: u8, b: u8) {}",
        "impl A { fn f(&'a mut self, A { b: _, c, .. }: B) {} }",
        "impl A for &Vec<u8> { fn f() {} }",
        "impl A for for<'a> fn(&'a u8) -> B { fn f() {} }",
        "impl<T> <A<T> as B>::C { fn f() {} }",
        "impl <A as B>::C { fn f() {} }",
        "impl !A for B { fn f() {} }",
    ] {
        let file = syn::parse_file(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(check_text(text, &file, &text), 1);
    }
}

fn find_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                find_files(&path, files);
            }
        } else if name.ends_with(".rs") {
            files.push(path);
        }
    }
}

/// Returns the number of functions in the file.
fn check_file(path: &Path) -> usize {
    let text = fs::read_to_string(path).unwrap();
    match syn::parse_file(&text) {
        Ok(file) => check_text(&text, &file, &path.display()),
        Err(_) => 0,
    }
}

/// Returns the number of functions in the text `text`, which `syn` has read as `file`.
fn check_text(text: &str, file: &syn::File, name: &dyn Display) -> usize {
    let tokens: TokenStream = text.parse().unwrap();
    let mut found = Vec::new();
    find(Buffer::new(tokens).start(), "", &mut found);
    let mut expected = Expected::default();
    file.items.iter().for_each(|item| expected.visit_item(item));
    assert_eq!(found, expected.found, "{name}");
    found.len()
}

/// Appends the functions at `cursor`, as the path and the parameters of each.
fn find(mut cursor: Cursor<'_>, outer: &str, found: &mut Vec<String>) {
    attribute::take_inner(&mut cursor);
    while !cursor.is_empty() {
        let item = Item::take(&mut cursor);
        assert!(item.is_complete);
        let prefix = match item.kind {
            Kind::Function => {
                let signature = Signature::parse(item.header).unwrap();
                let names = pattern::names_in(&signature.parameters);
                let name = names::ident_name(&signature.name);
                found.push(spell(outer, &name, &names, signature.output.as_ref()));
                continue;
            }
            Kind::Impl => names::impl_prefix(item.header),
            Kind::Trait | Kind::Module => format!("{outer}{}", item.name()),
            Kind::Statement | Kind::Other | Kind::Unknown => continue,
        };
        if let Some(block) = item.block {
            find(Buffer::of(block).start(), &format!("{prefix}::"), found);
        }
    }
}

/// Spells a function without spaces, since `syn` has its own ones.
fn spell(
    outer: &str,
    name: &str,
    names: &[proc_macro2::Ident],
    output: Option<&impl ToTokens>,
) -> String {
    let output = output.map(|output| output.to_token_stream().to_string());
    format!("{outer}{name}{names:?}{output:?}").replace(' ', "")
}

/// The functions that `syn` finds.
#[derive(Default)]
struct Expected {
    found: Vec<String>,
    outer: String,
}

impl Expected {
    /// Visits the content of an item whose functions have names that begin with `prefix`.
    fn inside(&mut self, prefix: &str, visit: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.outer, format!("{prefix}::"));
        visit(self);
        self.outer = outer;
    }
}

impl<'ast> Visit<'ast> for Expected {
    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        let mut names = Names(Vec::new());
        signature
            .inputs
            .iter()
            .for_each(|input| names.visit_fn_arg(input));
        let output = match &signature.output {
            syn::ReturnType::Default => None,
            syn::ReturnType::Type(_, ty) => Some(ty),
        };
        let name = signature.ident.unraw().to_string();
        self.found.push(spell(&self.outer, &name, &names.0, output));
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let last = |path: &syn::Path| path.segments.last().unwrap().ident.unraw().to_string();
        let name = match &*item.self_ty {
            syn::Type::Path(ty) => last(&ty.path),
            other => other.to_token_stream().to_string(),
        };
        let prefix = match &item.trait_ {
            Some((_, path, _)) => format!("<{name} as {}>", last(path)),
            None => name,
        };
        self.inside(&prefix, |this| visit::visit_item_impl(this, item));
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        let prefix = format!("{}{}", self.outer, item.ident.unraw());
        self.inside(&prefix, |this| visit::visit_item_trait(this, item));
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let prefix = format!("{}{}", self.outer, item.ident.unraw());
        self.inside(&prefix, |this| visit::visit_item_mod(this, item));
    }

    fn visit_item_foreign_mod(&mut self, _: &'ast syn::ItemForeignMod) {}

    fn visit_block(&mut self, _: &'ast syn::Block) {}

    fn visit_expr(&mut self, _: &'ast syn::Expr) {}
}

/// The names that parameters bind.
struct Names(Vec<proc_macro2::Ident>);

impl<'ast> Visit<'ast> for Names {
    fn visit_pat_ident(&mut self, binding: &'ast syn::PatIdent) {
        self.0.push(binding.ident.clone());
        visit::visit_pat_ident(self, binding);
    }

    // A type may contain a block, whose bindings are not parameters.
    fn visit_type(&mut self, _: &'ast syn::Type) {}
}
