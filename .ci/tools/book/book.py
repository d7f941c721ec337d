"""book.py: checks the documents as a reader meets them.

- Each relative link of README.md, ARCHITECTURE.md, CONTRIBUTING.md and docs leads to a file, and
  its anchor to a heading.
- README.md has at most 200 lines.
- Each page of docs is in SUMMARY.md, and in the doctests if it has code in Rust.
- The table of variables has the variables that the recorder reads.

Each error is one line.
"""
import pathlib
import re
import sys
import urllib.parse

DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/**/*.md")
SUMMARY = "docs/SUMMARY.md"
DOCTESTS = "examples/src/book.rs"
VARIABLES = "docs/variables.md"
KNOWN = "crates/vor-recorder/src/setup/variables.rs"
README_LINES = 200

FENCE = re.compile(r"\s*(`{3,}|~{3,})\s*([\w-]*)")
CODE = re.compile(r"(`+).+?\1")
# A target without spaces, after a text that may hold an image.
LINK = re.compile(r"\]\(([^)\s]*)\)")
HEADING = re.compile(r"(#{1,6}) (.+)")
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def lines_outside_code(text):
    """The numbered lines of a document that are not in a block of code."""
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        mark = FENCE.match(line)
        if fence is None and mark:
            fence = mark[1]
        elif fence is None:
            yield number, line
        elif mark and mark[1].startswith(fence) and not mark[2]:
            fence = None


def languages(text):
    """The languages of the blocks of code."""
    fence = None
    for line in text.splitlines():
        mark = FENCE.match(line)
        if fence is None and mark:
            fence = mark[1]
            yield mark[2]
        elif mark and mark[1].startswith(fence) and not mark[2]:
            fence = None


def anchors(text):
    """The anchors of a document's headings, as GitHub and mdbook make them."""
    found = set()
    for _, line in lines_outside_code(text):
        heading = HEADING.fullmatch(line.rstrip())
        if not heading:
            continue
        name = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading[2]).lower()
        slug = re.sub(r"[^\w\- ]", "", name).strip().replace(" ", "-")
        anchor, count = slug, 0
        while anchor in found:
            count += 1
            anchor = f"{slug}-{count}"
        found.add(anchor)
    return found


def links(text):
    """The numbered targets of a document's links to files and headings."""
    for number, line in lines_outside_code(text):
        for link in LINK.finditer(CODE.sub("``", line)):
            if not ELSEWHERE.match(link[1]):
                yield number, link[1]


def check_links(root, name, text, errors):
    """Every link of a document leads somewhere."""
    for number, target in links(text):
        # An empty target is a page of the summary that is not written yet.
        if not target and name == SUMMARY:
            continue
        place = f"{name}:{number}"
        path, _, anchor = urllib.parse.unquote(target).partition("#")
        file = (root / name).parent / path if path else root / name
        if not target or not file.exists() or root not in file.resolve().parents:
            errors.append(f"{place}: `{target}` leads nowhere")
        elif anchor and (file.suffix != ".md" or anchor not in anchors(file.read_text())):
            errors.append(f"{place}: `{target}` has no such heading")


def check_pages(root, texts, errors):
    """Every page is in the summary, and its code in the doctests."""
    listed = {
        (pathlib.PurePosixPath("docs") / target).as_posix()
        for _, target in links(texts.get(SUMMARY, ""))
        if target
    }
    tests = (root / DOCTESTS).read_text()
    for name, text in texts.items():
        if name.startswith("docs/") and name not in listed | {SUMMARY}:
            errors.append(f"{name}: {SUMMARY} does not list it")
        if "rust" in languages(text) and f'"{name}"' not in tests:
            errors.append(f"{name}: {DOCTESTS} does not test its code")


def check_variables(root, texts, errors):
    """The table of variables is complete."""
    known = re.search(r"KNOWN: &\[&str\] = &\[(.*?)\];", (root / KNOWN).read_text(), re.DOTALL)
    names = re.findall(r'"(VOR_\w+)"', known[1]) if known else []
    if not names:
        errors.append(f"{KNOWN}: no list of variables")
    for name in names:
        if f"`{name}`" not in texts.get(VARIABLES, ""):
            errors.append(f"{VARIABLES}: {name} is missing")


def check(root):
    """All errors, as lines of text, and the number of documents."""
    root = root.resolve()
    errors = []
    texts = {
        path.relative_to(root).as_posix(): path.read_text()
        for pattern in DOCUMENTS
        for path in sorted(root.glob(pattern))
    }
    for name, text in texts.items():
        check_links(root, name, text, errors)
    count = len(texts.get("README.md", "").splitlines())
    if not 0 < count <= README_LINES:
        errors.append(f"README.md: {count} lines, at most {README_LINES}")
    check_pages(root, texts, errors)
    check_variables(root, texts, errors)
    return errors, len(texts)


def main():
    errors, count = check(pathlib.Path.cwd())
    for error in errors:
        print(error, file=sys.stderr)
    if errors:
        sys.exit(1)
    print(f"book: all links of {count} documents lead somewhere")


if __name__ == "__main__":
    main()
