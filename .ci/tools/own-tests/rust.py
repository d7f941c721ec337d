"""The items of a Rust file: where each begins and ends, and its name."""

import re
from dataclasses import dataclass

TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(\#*)".*?"\1|b?"(?:\\.|[^"\\])*"|"""
    r"""b?'(?:\\.[^']*|[^'\\])'|[{}()\[\];]""",
    re.S,
)
# `name: …` is that of a test that a macro of the standard library's tests makes.
NAME = re.compile(r"\b(?:fn|name:)\s+(\w+)|\bmod\s+(\w+)\s*[{]")

TEST = re.compile(r"#\[(?:[\w:]*test|maybe_tokio_test)\b|\btest_body:")


@dataclass
class Item:
    # With those of the modules around it: `tests::smoke`; empty for an item of another kind.
    name: str
    start: int
    end: int
    is_test: bool


def split(text, start=0, end=None):
    """The begins and ends of the items in a part of a file, and where the block of each begins."""
    end = len(text) if end is None else end
    at, depth, opened = start, 0, None
    for token in TOKEN.finditer(text, start, end):
        mark = token[0]
        if mark in "{([":
            if depth == 0 and mark == "{":
                opened = token.end()
            depth += 1
        elif mark in "})]":
            depth -= 1
            # `use a::{b, c};` goes on.
            if depth == 0 and mark == "}" and not re.match(r"\s*;", text[token.end() : end]):
                yield at, token.end(), opened
                at = token.end()
        elif mark == ";" and depth == 0:
            yield at, token.end(), None
            at = token.end()


def items(text, start=0, end=None, prefix=""):
    """The items in a part of a file, those of modules in place of the modules."""
    found = []
    for start, end, opened in split(text, start, end):
        code = without_comments(text[start:end])
        name = NAME.search(code)
        if name and name[2] and opened:
            found += items(text, opened, end - 1, f"{prefix}{name[2]}::")
            continue
        is_test = bool(TEST.search(code))
        found.append(Item(prefix + name[1] if name and name[1] else "", start, end, is_test))
    return found


def without_comments(text):
    return TOKEN.sub(lambda token: " " if token[0].startswith("/") else token[0], text)


def only_tests(text):
    """The text without its items that are not for tests. Lines keep their numbers."""
    parts = []
    for start, end, _ in split(text):
        part = text[start:end]
        is_for_tests = without_comments(part).lstrip().startswith("#[cfg(test)]")
        parts.append(part if is_for_tests else "\n" * part.count("\n"))
    return "".join(parts)
