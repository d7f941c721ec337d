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
    /// Bytes before the first wildcard and behind the last `*`, from which most texts differ.
    begin_bytes: usize,
    end_bytes: usize,
    shape: Shape,
}

/// The shapes of most globs need no search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// `text`
    Literal,
    /// `text*text`, also `text*`, `*text` and `*`.
    Ends,
    /// `text*text*text`, also with more texts.
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
        let begin_bytes = text.find(['*', '?']).unwrap_or(text.len());
        let end_bytes = text.rfind('*').map_or(0, |at| text.len() - at - 1);
        Self {
            text: text.to_owned(),
            begin_bytes,
            end_bytes,
            shape: match text[begin_bytes..]
                .bytes()
                .filter(|byte| *byte == b'*')
                .count()
            {
                _ if text.contains('?') => Shape::Any,
                0 => Shape::Literal,
                1 => Shape::Ends,
                _ => Shape::Texts,
            },
        }
    }

    fn is_all(&self) -> bool {
        self.text == "*"
    }

    fn is_match(&self, text: &str) -> bool {
        self.is_match_of(text.as_bytes())
    }

    fn is_match_of(&self, text: &[u8]) -> bool {
        let glob = self.text.as_bytes();
        if self.shape == Shape::Any {
            return glob_matches(glob, text);
        }
        let Some(rest) = text.strip_prefix(&glob[..self.begin_bytes]) else {
            return false;
        };
        if self.shape == Shape::Literal {
            return rest.is_empty();
        }
        let end_at = glob.len() - self.end_bytes;
        let Some(between) = rest.strip_suffix(&glob[end_at..]) else {
            return false;
        };
        self.shape == Shape::Ends || has_texts(&glob[self.begin_bytes..end_at], between)
    }
}

/// Bytes of a path, and places in it at which patterns may begin, that need no allocation.
const SHORT_BYTES: usize = 96;
const FEW_STARTS: usize = 8;

/// The path of a scope, and where patterns may begin in it.
struct ScopePath {
    short: [u8; SHORT_BYTES],
    len: usize,
    /// The bytes of a path that `short` has no room for.
    long: Vec<u8>,
    starts: [usize; FEW_STARTS],
    used: usize,
    /// Further ones, of which few paths have any.
    more_starts: Vec<usize>,
}

impl ScopePath {
    fn new(module: &str, name: &str) -> Self {
        let separator = if module.is_empty() { "" } else { "::" };
        let mut path = Self {
            short: [0; SHORT_BYTES],
            len: module.len() + separator.len() + name.len(),
            long: Vec::new(),
            starts: [0; FEW_STARTS],
            used: 1,
            more_starts: Vec::new(),
        };
        let mut free = &mut path.short[..];
        if path.len > SHORT_BYTES {
            path.long.resize(path.len, 0);
            free = &mut path.long;
        }
        for part in [module, separator, name] {
            let (place, rest) = free.split_at_mut(part.len());
            place.copy_from_slice(part.as_bytes());
            free = rest;
        }
        path.find_starts();
        path
    }

    fn bytes(&self) -> &[u8] {
        self.short.get(..self.len).unwrap_or(&self.long)
    }

    /// Finds the places behind each `::`.
    fn find_starts(&mut self) {
        let mut at = 0;
        while let Some(pair) = self.bytes().get(at..at + 2) {
            if pair != b"::" {
                at += 1;
                continue;
            }
            at += 2;
            match self.starts.get_mut(self.used) {
                Some(start) => {
                    *start = at;
                    self.used += 1;
                }
                None => self.more_starts.push(at),
            }
        }
    }

    /// Compares a glob with the path from its begin, and from each `::` on.
    fn is_matched(&self, glob: &Glob) -> bool {
        let bytes = self.bytes();
        if glob.text.starts_with('*') {
            // A match from a later place on is also one from the begin on.
            return glob.is_match_of(bytes);
        }
        // Most patterns differ in their first byte.
        let first = glob.text.bytes().next().filter(|byte| *byte != b'?');
        let may_begin = |start: usize| first.is_none() || bytes.get(start).copied() == first;
        let mut starts = self.starts[..self.used].iter().chain(&self.more_starts);
        starts.any(|start| may_begin(*start) && glob.is_match_of(&bytes[*start..]))
    }
}

/// Returns whether a text has the texts of a glob between `*` in their order.
fn has_texts(glob: &[u8], text: &[u8]) -> bool {
    let mut wanted = glob.split(|byte| *byte == b'*');
    wanted
        .try_fold(text, |rest, wanted| find(rest, wanted))
        .is_some()
}

/// Returns what comes behind a text in a longer one.
fn find<'a>(text: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    let (first, more) = match wanted {
        [] => return Some(text),
        [first, more @ ..] => (first, more),
    };
    let mut rest = text;
    loop {
        let at = rest.iter().position(|byte| byte == first)?;
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix(more) {
            return Some(behind);
        }
    }
}

/// Returns whether a glob matches a text. A `*` first takes nothing, and one byte more each time
/// that the rest does not match. Only the last `*` must be tried again, so this takes at most the
/// product of both lengths.
fn glob_matches(mut glob: &[u8], mut text: &[u8]) -> bool {
    let mut retry = None;
    loop {
        let next = match (glob.split_first(), text.split_first()) {
            (None, None) => return true,
            (Some((b'*', more)), _) => {
                retry = Some((more, text));
                glob = more;
                continue;
            }
            (Some((b'?', more)), Some(_)) => char_len(text).map(|len| (more, &text[len..])),
            (Some((wanted, more)), Some((found, rest))) if wanted == found => Some((more, rest)),
            _ => None,
        };
        (glob, text) = match (next, retry) {
            (Some(next), _) => next,
            (None, Some((more, [_, rest @ ..]))) => {
                retry = Some((more, rest));
                (more, rest)
            }
            _ => return false,
        };
    }
}

/// Returns the length of the character with which a text begins, or nothing within a character.
fn char_len(text: &[u8]) -> Option<usize> {
    let is_inside = |byte: &u8| byte & 0xc0 == 0x80;
    let (first, rest) = text.split_first()?;
    (!is_inside(first)).then(|| 1 + rest.iter().take_while(|byte| is_inside(byte)).count())
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
        fn a_glob_matches_as_its_definition_says(glob in "[aé*?]{0,7}", text in "[aéè]{0,8}") {
            let [g, t] = [&glob, &text].map(|text| text.chars().collect::<Vec<_>>());
            prop_assert_eq!(Glob::new(&glob).is_match(&text), matches_by_definition(&g, &t));
        }

        #[test]
        fn a_path_matches_from_its_begin_or_any_separator(
            glob in "[a*?]{1,3}(::[a*]{1,2})?",
            module in "(a{1,2}::){0,2}a?|(a{1,12}::){7,12}a",
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
