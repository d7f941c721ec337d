//! Names with wildcards, as `--thread` and `--name` take them.

use std::str::FromStr;

use wildmatch::WildMatch;

use crate::command::failure::Failure;
use crate::command::source::Source;
use crate::command::usage::suggested;

/// A name in which `*` stands for any text and `?` for any character. Case matters, and no other
/// character is special, because names contain brackets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pattern {
    text: String,
    wild: WildMatch,
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("the name is empty; * matches any name".into());
        }
        Ok(Self {
            text: text.to_owned(),
            wild: WildMatch::new(text),
        })
    }
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Pattern {
    pub(crate) fn matches(&self, name: &str) -> bool {
        self.wild.matches(name)
    }
}

/// Returns whether some pattern matches a name. Without patterns, every name is selected.
pub(crate) fn is_selected(patterns: &[Pattern], name: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches(name))
}

/// Refuses a pattern that matches no name: it is a mistake, and an output without the names that it
/// was meant to select would mislead.
pub(crate) fn expect_matches<'a>(
    patterns: &[Pattern],
    names: impl Iterator<Item = &'a str> + Clone,
    thing: &str,
    failure: impl Fn(String) -> Failure,
) -> Result<(), Failure> {
    for pattern in patterns {
        if !names.clone().any(|name| pattern.matches(name)) {
            let mut known: Vec<String> = names.map(str::to_owned).collect();
            known.sort_unstable();
            known.dedup();
            return Err(failure(unknown(thing, &pattern.text, &known)));
        }
    }
    Ok(())
}

/// Refuses patterns that match no thread or no scope of a capture.
pub(crate) fn expect_known(
    source: &Source,
    threads: &[Pattern],
    names: &[Pattern],
) -> Result<(), Failure> {
    let failure = |what: String| source.failure(what);
    let labels = source.thread_labels();
    expect_matches(
        threads,
        labels.iter().map(String::as_str),
        "thread",
        failure,
    )?;
    let sites = source.capture.catalog().sites.iter().flatten();
    expect_matches(names, sites.map(|site| &*site.name), "scope", failure)
}

/// Returns the error for a name that no `thing` has.
pub(crate) fn unknown(thing: &str, name: &str, known: &[String]) -> String {
    let suggestion = match suggested(name, known) {
        Some(name) => format!("did you mean `{name}`? There are"),
        None => "there are".to_owned(),
    };
    format!(
        "no {thing} is called `{name}`; {suggestion} {}",
        listed(known)
    )
}

/// Lists the first names for an error message.
pub(crate) fn listed(names: &[String]) -> String {
    let mut text: Vec<String> = names
        .iter()
        .take(8)
        .map(|name| format!("`{name}`"))
        .collect();
    if names.len() > text.len() {
        text.push(format!("{} more", names.len() - text.len()));
    }
    if text.is_empty() {
        "none".into()
    } else {
        text.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks_stand_for_text_and_nothing_else_is_special() {
        let matches = |pattern: &str, name: &str| pattern.parse::<Pattern>().unwrap().matches(name);
        assert!(matches("decode", "decode") && !matches("decode", "decoder"));
        assert!(
            matches("*code*", "decoder") && matches("*", "x") && matches("Tile::*", "Tile::sort")
        );
        assert!(matches("worker-?", "worker-1") && !matches("worker-?", "worker-12"));
        assert!(matches("tile [1]", "tile [1]") && !matches("tile [1]", "tile 1"));
        assert!(!matches("Decode", "decode"));
        assert!("".parse::<Pattern>().is_err());
    }

    #[test]
    fn a_pattern_that_matches_nothing_is_refused_with_the_names_there_are() {
        let patterns: Vec<Pattern> = vec!["d*".parse().unwrap(), "x?".parse().unwrap()];
        assert_eq!(patterns[1].to_string(), "x?");
        let failure = Failure::Message;
        let names = ["draw", "decode", "draw"];
        let all = expect_matches(&patterns[..1], names.into_iter(), "scope", failure);
        assert!(all.is_ok());
        let refused = expect_matches(&patterns, names.into_iter(), "scope", failure);
        assert!(matches!(
            refused,
            Err(Failure::Message(text))
                if text == "no scope is called `x?`; there are `decode`, `draw`"
        ));
        assert_eq!(
            unknown("frame set", "fysics", &["physics".to_owned()]),
            "no frame set is called `fysics`; did you mean `physics`? There are `physics`"
        );
    }

    #[test]
    fn eight_names_are_listed_and_the_others_counted() {
        let names: Vec<String> = (0..10).map(|number| format!("n{number}")).collect();
        let eight = "`n0`, `n1`, `n2`, `n3`, `n4`, `n5`, `n6`, `n7`";
        assert_eq!(listed(&[]), "none");
        assert_eq!(listed(&names[..2]), "`n0`, `n1`");
        assert_eq!(listed(&names[..8]), eight);
        assert_eq!(listed(&names), format!("{eight}, 2 more"));
    }

    #[test]
    fn without_patterns_every_name_is_selected() {
        let patterns: Vec<Pattern> = vec!["a*".parse().unwrap(), "b".parse().unwrap()];
        assert!(is_selected(&[], "anything"));
        assert!(
            is_selected(&patterns, "abc")
                && is_selected(&patterns, "b")
                && !is_selected(&patterns, "bc")
        );
    }
}
