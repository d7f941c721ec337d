//! The language of the rules: which scopes are recorded, and how.
//!
//! ```text
//! rules    = [rule {"," rule}]
//! rule     = pattern "=" mode
//! pattern  = [("name" | "module" | "file" | "category" | "thread") ":"] glob
//! mode     = part {"+" part}
//! part     = "record" | "count" | "off" | "min:" time | "1/" number ["+tree"]
//!          | "cpu" | "waits" | "alloc"
//! ```
//!
//! A glob has `*` for any text and `?` for any character. Without a prefix it is compared with the
//! path of a scope, which is its module and its name, from any `::` on. The last rule that matches
//! decides. Nothing here knows of a recorder, so all of it is tested by properties.

use std::cell::OnceCell;
use std::fmt::{self, Display};
use std::str::FromStr;

use vor_capture::Error;
use vor_capture::model::catalog::SiteInfo;
use vor_capture::model::measures::Measures;

use crate::hot::modes::{MAX_RANK, Mode, Way};
use crate::os::report;

/// Rules that say which scopes are recorded, and how. The last rule that matches a scope decides;
/// a scope that none matches is recorded.
///
/// # Examples
///
/// ```
/// # mod vor { pub use vor_recorder::hot::rules::ScopeRules; }
/// let rules: vor::ScopeRules = "*=record, db::*=count, lock=min:50us, x=1/100".parse()?;
/// assert_eq!(rules.to_string(), "*=record,db::*=count,lock=min:50us,x=1/100");
/// let error = "db::*=cuont".parse::<vor::ScopeRules>().unwrap_err();
/// assert!(error.to_string().starts_with("scope rules: `db::*=cuont`: `cuont` is not a mode"));
/// # Ok::<(), vor_capture::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScopeRules {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    pattern: Pattern,
    /// With a bound in nanoseconds, not in ticks.
    mode: Mode,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    part: Part,
    glob: Glob,
}

/// A text with wildcards.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Glob {
    text: String,
    /// Bytes before the first wildcard, which most texts already differ from.
    literal_bytes: usize,
    shape: Shape,
}

/// The shapes of most globs need no search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// `text`
    Literal,
    /// `text*`, also `*`.
    Prefix,
    /// `*text`
    Suffix,
    /// Texts with `*` between them.
    Texts,
    /// Also with `?`.
    Any,
}

/// The part of a scope that a pattern is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Path,
    Name,
    Module,
    File,
    Category,
    Thread,
}

const PREFIXES: [(&str, Part); 5] = [
    ("name:", Part::Name),
    ("module:", Part::Module),
    ("file:", Part::File),
    ("category:", Part::Category),
    ("thread:", Part::Thread),
];

const TIMES: [(&str, u64); 5] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
];

const MEASURES: [(&str, Measures); 3] = [
    ("waits", Measures::WAITS),
    ("cpu", Measures::CPU),
    ("alloc", Measures::ALLOC),
];

const MODES: &str = "`record`, `count`, `off`, `min:50us`, `1/100`, `1/100+tree`, and `+cpu`, \
    `+waits`, `+alloc` for what is recorded";

/// Longest bound of `min`, a minute, in nanoseconds.
const MAX_MIN_NS: u64 = 60_000_000_000;

impl ScopeRules {
    /// Returns whether there are no rules, so that every scope is recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Replaces each mode by what `with` makes of it.
    pub(crate) fn with_modes(mut self, with: impl Fn(Mode) -> Mode) -> Self {
        for rule in &mut self.rules {
            rule.mode = with(rule.mode);
        }
        self
    }

    /// Returns the mode of the scopes of a call site, and the rank of the rule that decides: the
    /// number of the rule from 1, or 0 if no rule matches.
    pub(crate) fn of_site(&self, site: &SiteInfo) -> (Mode, u16) {
        let path = OnceCell::new();
        let matches = |Pattern { part, glob }: &Pattern| match part {
            Part::Path => {
                glob.is_all()
                    || path
                        .get_or_init(|| ScopePath::new(&site.module_path, &site.name))
                        .is_matched(glob)
            }
            Part::Name => glob.is_match(&site.name),
            Part::Module => glob.is_match(&site.module_path),
            Part::File => glob.is_match(&site.file),
            Part::Category => glob.is_match(&site.category),
            Part::Thread => false,
        };
        self.last(matches)
    }

    /// Returns the mode of the scopes of a thread, and the rank of the rule that decides.
    pub(crate) fn of_thread(&self, name: &str) -> (Mode, u16) {
        self.last(|pattern| pattern.part == Part::Thread && pattern.glob.is_match(name))
    }

    /// Returns the rank of the last rule for threads, or 0 if there is none.
    pub(crate) fn last_thread_rank(&self) -> u16 {
        self.last(|pattern| pattern.part == Part::Thread).1
    }

    fn last(&self, matches: impl Fn(&Pattern) -> bool) -> (Mode, u16) {
        let found = self.rules.iter().rposition(|rule| matches(&rule.pattern));
        found.map_or((Mode::RECORD, 0), |at| (self.rules[at].mode, at as u16 + 1))
    }
}

impl Glob {
    fn new(text: &str) -> Self {
        let literal_bytes = text.find(['*', '?']).unwrap_or(text.len());
        Self {
            text: text.to_owned(),
            literal_bytes,
            shape: match (literal_bytes, &text[literal_bytes..]) {
                (_, "") => Shape::Literal,
                (_, "*") => Shape::Prefix,
                (_, rest) if rest.contains('?') => Shape::Any,
                (0, rest) if !rest[1..].contains('*') => Shape::Suffix,
                _ => Shape::Texts,
            },
        }
    }

    fn is_all(&self) -> bool {
        self.text == "*"
    }

    fn is_match(&self, text: &str) -> bool {
        self.is_match_of([text, "", ""])
    }

    /// Returns whether it matches these texts, one behind the other.
    fn is_match_of(&self, parts: [&str; 3]) -> bool {
        let mut literal = &self.text.as_bytes()[..self.literal_bytes];
        let mut left = 0;
        for part in parts.map(str::as_bytes) {
            let (compared, rest) = literal.split_at(literal.len().min(part.len()));
            if !part.starts_with(compared) {
                return false;
            }
            literal = rest;
            left += part.len() - compared.len();
        }
        literal.is_empty()
            && match self.shape {
                Shape::Literal => left == 0,
                Shape::Prefix => true,
                Shape::Suffix => ends_with(parts, &self.text.as_bytes()[1..]),
                Shape::Texts => match parts {
                    [text, "", ""] => has_texts(&self.text, text),
                    _ => has_texts(&self.text, &parts.concat()),
                },
                Shape::Any => glob_matches(&self.text, || parts.into_iter().flat_map(str::chars)),
            }
    }
}

/// Places in a path at which patterns may begin that need no allocation.
const FEW_STARTS: usize = 12;

/// A place in a path, and the byte there, from which most patterns differ.
#[derive(Clone, Copy, Debug, Default)]
struct Start {
    at: u32,
    byte: u8,
}

/// The module and the name of a scope, and where patterns may begin in them.
struct ScopePath<'a> {
    module: &'a str,
    name: &'a str,
    starts: [Start; FEW_STARTS],
    used: usize,
    /// Further ones, of which few paths have any.
    more_starts: Vec<Start>,
}

impl<'a> ScopePath<'a> {
    fn new(module: &'a str, name: &'a str) -> Self {
        let mut path = Self {
            module,
            name,
            starts: [Start::default(); FEW_STARTS],
            used: 0,
            more_starts: Vec::new(),
        };
        // The name counts from behind the module and a separator.
        let mut offset = 0;
        for text in [module, name].into_iter().filter(|text| !text.is_empty()) {
            let bytes = text.as_bytes();
            path.add(offset, bytes.first());
            let mut at = 0;
            while let Some(found) = text[at..].find(':') {
                at += found + 1;
                if bytes.get(at) == Some(&b':') {
                    at += 1;
                    path.add(offset + at, bytes.get(at));
                }
            }
            offset += text.len() + 2;
        }
        path
    }

    /// Adds a place. At the end of the module, a separator comes next.
    fn add(&mut self, at: usize, byte: Option<&u8>) {
        let start = Start {
            at: at as u32,
            byte: byte.copied().unwrap_or(b':'),
        };
        match self.starts.get_mut(self.used) {
            Some(place) => {
                *place = start;
                self.used += 1;
            }
            None => self.more_starts.push(start),
        }
    }

    /// Compares a glob with the path from its begin, and from each `::` on.
    fn is_matched(&self, glob: &Glob) -> bool {
        let name_start = match self.module.len() {
            0 => 0,
            len => len + 2,
        };
        let first = glob.text.as_bytes()[..glob.literal_bytes].first();
        let mut starts = self.starts[..self.used].iter().chain(&self.more_starts);
        if glob.text.starts_with('*') {
            // A match from a later place on is also one from the begin on.
            starts = self.starts[..self.used.min(1)].iter().chain(&[]);
        }
        let mut starts = starts.filter(|start| first.is_none_or(|first| *first == start.byte));
        starts.any(|start| {
            let at = start.at as usize;
            match at.checked_sub(name_start) {
                Some(in_name) => glob.is_match(&self.name[in_name..]),
                None => glob.is_match_of([&self.module[at..], "::", self.name]),
            }
        })
    }
}

/// Returns whether these texts, one behind the other, end with another one.
fn ends_with(parts: [&str; 3], mut end: &[u8]) -> bool {
    for part in parts.map(str::as_bytes).into_iter().rev() {
        let (rest, compared) = end.split_at(end.len() - end.len().min(part.len()));
        if !part.ends_with(compared) {
            return false;
        }
        end = rest;
    }
    end.is_empty()
}

/// Returns whether a text begins with the first text of a glob, ends with its last one, and has the
/// others between them in their order.
fn has_texts(glob: &str, text: &str) -> bool {
    let mut wanted = glob.split('*');
    let (first, last) = (wanted.next(), wanted.next_back());
    let (Some(first), Some(last)) = (first, last) else {
        return glob == text;
    };
    let between = text.strip_prefix(first);
    let rest = between.and_then(|text| {
        wanted.try_fold(text, |rest, wanted| {
            let at = rest.find(wanted)?;
            Some(&rest[at + wanted.len()..])
        })
    });
    rest.is_some_and(|rest| rest.ends_with(last))
}

/// Returns whether a glob matches a text. A `*` first takes nothing, and one character more each
/// time that the rest does not match. Only the last `*` must be tried again, so this takes at most
/// the product of both lengths.
fn glob_matches<I: Iterator<Item = char> + Clone>(glob: &str, text: impl Fn() -> I) -> bool {
    let (mut text, mut glob) = (text(), glob.chars());
    let mut retry: Option<(I, std::str::Chars<'_>)> = None;
    loop {
        match (glob.next(), text.clone().next()) {
            (Some('*'), _) => retry = Some((text.clone(), glob.clone())),
            (None, None) => return true,
            (Some(wanted), Some(found)) if wanted == found || wanted == '?' => {
                text.next();
            }
            _ => {
                let Some((from, rest)) = &mut retry else {
                    return false;
                };
                if from.next().is_none() {
                    return false;
                }
                (text, glob) = (from.clone(), rest.clone());
            }
        }
    }
}

impl FromStr for ScopeRules {
    type Err = Error;

    /// Reads rules.
    ///
    /// # Errors
    ///
    /// Fails with one line that shows the rule that is wrong and what is allowed.
    fn from_str(text: &str) -> Result<Self, Error> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let rules: Vec<Rule> = text.split(',').map(rule).collect::<Result<_, _>>()?;
        if rules.len() > usize::from(MAX_RANK) {
            let message = format!(
                "scope rules: there are {}; at most {MAX_RANK} are allowed",
                rules.len()
            );
            return Err(Error::config(message));
        }
        Ok(Self { rules })
    }
}

fn rule(text: &str) -> Result<Rule, Error> {
    let text = text.trim();
    let refuse =
        |what: String| Error::config(report::escaped(&format!("scope rules: `{text}`: {what}")));
    let Some((pattern, mode)) = text.rsplit_once('=') else {
        return Err(refuse(format!(
            "a rule is `PATTERN=MODE`, such as `db::*=count`; a mode is {MODES}"
        )));
    };
    let (pattern, mode) = (pattern.trim(), mode.trim());
    let prefix = PREFIXES
        .iter()
        .find(|(prefix, _)| pattern.starts_with(prefix));
    let (part, glob) = match prefix {
        Some((prefix, part)) => (*part, pattern[prefix.len()..].trim()),
        None => (Part::Path, pattern),
    };
    if glob.is_empty() {
        return Err(refuse(
            "the pattern is empty; write `*` for every scope, or `name:`, `module:`, `file:`, \
            `category:` or `thread:` and a pattern"
                .to_owned(),
        ));
    }
    let pattern = Pattern {
        part,
        glob: Glob::new(glob),
    };
    let mode = self::mode(mode).map_err(refuse)?;
    Ok(Rule { pattern, mode })
}

fn mode(text: &str) -> Result<Mode, String> {
    let mut way = None;
    let mut measures = Measures::NONE;
    for part in text.split('+').map(str::trim) {
        if let Some((_, more)) = MEASURES.iter().find(|(name, _)| *name == part) {
            measures = measures.union(*more);
            continue;
        }
        if let (Some(Way::Sample { tree, .. }), "tree") = (&mut way, part) {
            *tree = true;
            continue;
        }
        let found = match part {
            "record" => Way::Record,
            "count" => Way::Count,
            "off" => Way::Off,
            "tree" => {
                return Err("`tree` belongs to a sample, such as `1/100+tree`".to_owned());
            }
            _ => match (part.strip_prefix("min:"), part.strip_prefix("1/")) {
                (Some(bound), _) => Way::Min {
                    bound: bound_ns(bound.trim())?,
                },
                (_, Some(number)) => Way::Sample {
                    one_in: one_in(number.trim())?,
                    tree: false,
                },
                _ => return Err(format!("`{part}` is not a mode; a mode is {MODES}")),
            },
        };
        if way.replace(found).is_some() {
            return Err(format!("`{text}` is two modes; a scope has one of {MODES}"));
        }
    }
    let way = way.unwrap_or(Way::Record);
    if matches!(way, Way::Count | Way::Off) && !measures.is_none() {
        return Err(format!(
            "`{text}` measures what is not recorded; `+cpu`, `+waits` and `+alloc` go with \
            `record`, `min:50us` and `1/100`"
        ));
    }
    Ok(Mode { way, measures })
}

fn bound_ns(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit_ns = TIMES.iter().find(|(name, _)| *name == unit.trim_start());
    let ns = number.parse::<u64>().ok().zip(unit_ns);
    let ns = ns.and_then(|(number, (_, unit_ns))| number.checked_mul(*unit_ns));
    ns.filter(|ns| (1..=MAX_MIN_NS).contains(ns))
        .ok_or_else(|| {
            format!(
                "`min:{text}` needs a whole number and a unit, from 1ns to 60s: `min:500ns`, \
            `min:50us`, `min:2ms`, `min:1s`"
            )
        })
}

fn one_in(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| *number >= 1);
    number.ok_or_else(|| {
        format!(
            "`1/{text}` needs a whole number from 1 to {}: `1/100`",
            u32::MAX
        )
    })
}

impl Display for ScopeRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, rule) in self.rules.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            let part = rule.pattern.part;
            let prefix = PREFIXES.iter().find(|(_, of)| *of == part);
            f.write_str(prefix.map_or("", |(prefix, _)| prefix))?;
            write!(f, "{}={}", rule.pattern.glob.text, ModeText(rule.mode))?;
        }
        Ok(())
    }
}

/// A mode as rules write it. Its bound is in nanoseconds.
pub(crate) struct ModeText(pub(crate) Mode);

impl Display for ModeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mode { way, mut measures } = self.0;
        match way {
            Way::Record => f.write_str("record")?,
            Way::Count => f.write_str("count")?,
            Way::Off => f.write_str("off")?,
            Way::Min { bound } => {
                let units = TIMES.iter().rev().filter(|(name, _)| name.is_ascii());
                let unit = units.clone().find(|(_, ns)| bound % ns == 0);
                let (name, ns) = unit.unwrap_or(&TIMES[0]);
                write!(f, "min:{}{name}", bound / ns)?;
            }
            Way::Sample { one_in, tree } => {
                write!(f, "1/{one_in}{}", if tree { "+tree" } else { "" })?;
            }
        }
        for (name, group) in MEASURES {
            if measures.has(group) {
                write!(f, "+{name}")?;
                measures = measures.without(group);
            }
        }
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use proptest::prelude::*;
    use vor_capture::filled;

    use super::*;

    fn site(module: &str, name: &str) -> SiteInfo {
        filled!(SiteInfo {
            name: name.to_owned().into(),
            module_path: module.to_owned().into(),
            file: "src/db/query.rs".into(),
            category: "storage".into(),
        })
    }

    fn mode_of(rules: &str, site: &SiteInfo) -> String {
        let rules: ScopeRules = rules.parse().unwrap();
        ModeText(rules.of_site(site).0).to_string()
    }

    #[test]
    fn a_pattern_matches_the_parts_of_a_scope() {
        let query = site("app::db", "query");
        let matching = [
            "*",
            "query",
            "qu*",
            "q?ery",
            "db::query",
            "db::*",
            "app::*",
            "*::query",
            "app::db::query",
            "name:query",
            "module:app::*",
            "file:*/db/*.rs",
            "category:stor*",
        ];
        for pattern in matching {
            assert_eq!(
                mode_of(&format!("{pattern}=off"), &query),
                "off",
                "{pattern}"
            );
        }
        let others = [
            "quer",
            "u*y",
            "b::query",
            "db",
            "name:db::query",
            "module:db",
            "file:db",
            "thread:*",
            "category:",
            "name:q?ery*x",
        ];
        for pattern in others.into_iter().filter(|pattern| *pattern != "category:") {
            assert_eq!(
                mode_of(&format!("{pattern}=off"), &query),
                "record",
                "{pattern}"
            );
        }
        // A method's name has a path of its own, and a name made at run time has no module.
        assert_eq!(mode_of("draw=off", &site("app", "Tile::draw")), "off");
        assert_eq!(mode_of("step 1*=off", &site("", "step 12")), "off");
    }

    #[test]
    fn the_last_rule_decides() {
        let query = site("app::db", "query");
        assert_eq!(mode_of("*=off,db::*=record", &query), "record");
        assert_eq!(mode_of("db::*=record,*=off", &query), "off");
        assert_eq!(mode_of("x=off", &query), "record");
        assert_eq!(
            mode_of(" * = 1/100 + tree + alloc ", &query),
            "1/100+tree+alloc"
        );
        let rules: ScopeRules = "thread:io*=off,*=count,thread:i?=1/2".parse().unwrap();
        assert_eq!(rules.last_thread_rank(), 3);
        assert_eq!(rules.of_thread("io-7").1, 1);
        assert_eq!(rules.of_thread("io").1, 3);
        assert_eq!(rules.of_thread("main"), (Mode::RECORD, 0));
    }

    #[test]
    fn a_bad_rule_is_one_line_with_the_piece_and_what_is_allowed() {
        let cases = [
            ("a=off,b", "`b`: a rule is `PATTERN=MODE`"),
            ("=off", "`=off`: the pattern is empty"),
            ("thread: =off", "the pattern is empty"),
            ("a=", "`` is not a mode"),
            ("a=min:50", "`min:50` needs a whole number and a unit"),
            ("a=min:0us", "`min:0us` needs"),
            ("a=min:61s", "`min:61s` needs"),
            ("a=min:99999999999999999999s", "needs"),
            ("a=1/0", "`1/0` needs a whole number"),
            ("a=tree", "`tree` belongs to a sample"),
            ("a=off+cpu", "`off+cpu` measures what is not recorded"),
            ("a=off+count", "`off+count` is two modes"),
            ("a=off,,b=off", "a rule is `PATTERN=MODE`"),
        ];
        for (rules, expected) in cases {
            let error = rules.parse::<ScopeRules>().unwrap_err();
            let line = error.to_string();
            assert!(
                error.is_config() && line.starts_with("scope rules: "),
                "{line}"
            );
            assert!(line.contains(expected) && !line.contains('\n'), "{line}");
        }
        let many = "a=off,".repeat(usize::from(MAX_RANK)) + "a=off";
        let error = many.parse::<ScopeRules>().unwrap_err().to_string();
        assert!(error.ends_with("are allowed"), "{error}");
        assert!(many[6..].parse::<ScopeRules>().is_ok());
    }

    fn any_rule() -> impl Strategy<Value = String> {
        let prefix = prop::sample::select(vec![
            "",
            "name:",
            "module:",
            "file:",
            "category:",
            "thread:",
        ]);
        let unit = prop::sample::select(vec!["ns", "us", "µs", "ms"]);
        let mode = prop_oneof![
            prop::sample::select(vec!["record", "count", "off", "cpu", "waits+alloc"])
                .prop_map(str::to_owned),
            (1..10_000_u64, unit).prop_map(|(number, unit)| format!("min:{number}{unit}")),
            (1..=u32::MAX, any::<bool>()).prop_map(|(number, tree)| {
                format!("1/{number}{}+cpu", if tree { "+tree" } else { "" })
            }),
        ];
        (prefix, "[a-c*?:]{1,6}", mode)
            .prop_map(|(prefix, glob, mode)| format!("{prefix}{glob}={mode}"))
    }

    /// A glob by its definition: slow, and plainly right.
    fn matches_by_definition(glob: &[char], text: &[char]) -> bool {
        match (glob.split_first(), text.split_first()) {
            (None, rest) => rest.is_none(),
            (Some(('*', rest)), _) => {
                (0..=text.len()).any(|taken| matches_by_definition(rest, &text[taken..]))
            }
            (Some((wanted, rest)), Some((found, more))) => {
                (wanted == found || *wanted == '?') && matches_by_definition(rest, more)
            }
            (Some(_), None) => false,
        }
    }

    proptest! {
        #[test]
        fn rules_are_read_as_they_are_written(
            rules in prop::collection::vec(any_rule(), 0..5),
        ) {
            let read: ScopeRules = rules.join(" , ").parse().unwrap();
            let again: ScopeRules = read.to_string().parse().unwrap();
            prop_assert_eq!(&again, &read);
            prop_assert_eq!(again.to_string(), read.to_string());
        }

        #[test]
        fn any_text_is_rules_or_one_line(text in "[ -~µ\n]{0,40}") {
            if let Err(error) = text.parse::<ScopeRules>() {
                let line = error.to_string();
                prop_assert!(line.starts_with("scope rules: ") && !line.contains('\n'), "{}", line);
            }
        }

        #[test]
        fn a_glob_matches_as_its_definition_says(glob in "[ab*?]{0,7}", text in "[abc]{0,8}") {
            let [g, t] = [&glob, &text].map(|text| text.chars().collect::<Vec<_>>());
            prop_assert_eq!(Glob::new(&glob).is_match(&text), matches_by_definition(&g, &t));
        }

        #[test]
        fn a_path_matches_from_its_begin_or_any_separator(
            glob in "[a*]{1,3}(::[a*]{1,2})?",
            module in "(a{1,2}::){0,2}a?",
            name in "a{1,2}(::a)?",
        ) {
            let path = if module.is_empty() { name.clone() } else { format!("{module}::{name}") };
            let starts = path.match_indices("::").map(|(at, _)| at + 2);
            let pattern = Glob::new(&glob);
            let expected = std::iter::once(0).chain(starts).any(|at| pattern.is_match(&path[at..]));
            let found = ScopePath::new(&module, &name).is_matched(&Glob::new(&glob));
            prop_assert_eq!(found, expected);
        }
    }
}
