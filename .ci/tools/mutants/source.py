"""All mutants of a crate in one build: each function with mutants chooses its body at run time.

`cargo mutants --list --json` names the mutants. A function with mutants 17 and 18 becomes

    fn f(…) { match crate::mutant::of(3) { 17 => {body 17} 18 => {body 18} _ => {body} } }

where 3 is the number of the function, and `crate::mutant` reads the variable VOR_MUTANT.
"""

import bisect
import re

# `of` returns the mutant that this process runs, or 0. With VOR_MUTANT_REACHED it appends the
# number of each function that is called to that file.
RUNTIME = """
#[doc(hidden)]
#[allow(missing_docs, clippy::all)]
pub(crate) mod mutant {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
    static ID: AtomicU32 = AtomicU32::new(u32::MAX);
    static REACHED: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];
    #[inline]
    pub fn of(function: usize) -> u32 {
        let id = ID.load(Relaxed);
        if id != u32::MAX { id } else { read(function) }
    }
    #[cold]
    fn read(function: usize) -> u32 {
        use std::io::Write as _;
        if REACHED[function].load(Relaxed) {
            return 0;
        }
        if let Ok(id) = std::env::var("VOR_MUTANT") {
            let id = id.parse().unwrap();
            ID.store(id, Relaxed);
            return id;
        }
        if let Some(path) = std::env::var_os("VOR_MUTANT_REACHED") {
            if !REACHED[function].swap(true, Relaxed) {
                let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
                file.write_all(format!("{function}\\n").as_bytes()).unwrap();
            }
        } else {
            ID.store(0, Relaxed);
        }
        0
    }
}
"""

TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(\#*)".*?"\1|b?"(?:\\.|[^"\\])*"|"""
    r"""b?'(?:\\.[^']*|[^'\\])'|[{}()\[\]]""",
    re.S,
)


class Offsets:
    """Offsets of lines and columns, both from 1, in a text."""

    def __init__(self, text):
        self.starts = [0]
        for line in text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def of(self, place):
        return self.starts[place["line"] - 1] + place["column"] - 1

    def line(self, offset):
        return bisect.bisect_right(self.starts, offset)


def body_of(text, start, end):
    """The offsets of the block of the function at start..end; None where it runs in constants."""
    depth = 0
    for token in TOKEN.finditer(text, start, end):
        if token[0] in "([":
            depth += 1
        elif token[0] in ")]":
            depth -= 1
        elif token[0] == "{" and depth == 0:
            header = TOKEN.sub(" ", text[start : token.start()])
            constant = re.search(r"\bconst\s+(unsafe\s+)?(extern\s+)?fn\b", header)
            return None if constant else (token.end(), end - 1)
    return None


def units(text, mutants, numbers):
    """Groups mutants by the outermost function around each: [(body, [(id, start, end, text)])].

    Returns the ids of those outside such a function too."""
    offsets = Offsets(text)
    spans, left = set(), []
    for number in numbers:
        function = mutants[number].get("function")
        if function:
            span = function["span"]
            spans.add((offsets.of(span["start"]), offsets.of(span["end"])))
    bodies = {}
    for start, end in sorted(spans):
        if not any(s <= start and end <= e and (s, e) != (start, end) for s, e in spans):
            body = body_of(text, start, end)
            if body:
                bodies[body] = []
    for number in numbers:
        span = mutants[number]["span"]
        start, end = offsets.of(span["start"]), offsets.of(span["end"])
        around = [body for body in bodies if body[0] <= start and end <= body[1]]
        if around:
            bodies[around[0]].append((number, start, end, mutants[number]["replacement"]))
        else:
            left.append(number)
    return sorted(bodies.items()), left


class Batch:
    """The files of a crate with all mutants but those that are left out."""

    def __init__(self, texts, mutants):
        self.texts, self.mutants = texts, mutants
        self.units, self.left, self.function_of = {}, [], {}
        count = 0
        for path, text in texts.items():
            numbers = [n for n in mutants if mutants[n]["file"] == path]
            found, left = units(text, mutants, numbers)
            self.left += left
            self.units[path] = []
            for body, inside in found:
                if inside:
                    self.units[path].append((count, body, inside))
                    self.function_of.update((number, count) for number, *_ in inside)
                    count += 1
        self.count = count

    def write(self, dropped):
        """Returns each file's text, and per file what is in which lines: [(first, last, ids)].

        Lines of the original body have the ids of all its mutants."""
        files, lines = {}, {}
        for path, text in self.texts.items():
            parts, end_of_last, places, line = [], 0, [], 1

            def add(part):
                nonlocal line
                parts.append(part)
                line += part.count("\n")

            for function, (start, end), inside in self.units[path]:
                add(text[end_of_last:start])
                add(f" match crate::mutant::of({function}) {{\n")
                for number, first, last, new in inside:
                    if number in dropped:
                        continue
                    before = line
                    # The space keeps a deleted operator's neighbours apart.
                    add(f"{number} => {{{text[start:first]} {new} {text[last:end]}\n}}\n")
                    places.append((before, line - 1, [number]))
                before = line
                add(f"_ => {{{text[start:end]}}} }} ")
                places.append((before, line, [number for number, *_ in inside]))
                end_of_last = end
            add(text[end_of_last:])
            files[path], lines[path] = "".join(parts), places
        return files, lines
