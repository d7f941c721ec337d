"""book.py [--stage FOLDER | --built FOLDER]: checks the documents as a reader meets them.

- Each relative link of README.md, ARCHITECTURE.md, CONTRIBUTING.md and docs leads to a file, and
  its anchor to a heading.
- README.md has at most 200 lines.
- Each page of docs is in SUMMARY.md, and in the doctests if it has code in Rust.
- The table of variables has the variables that the recorder reads.

Each error is one line. `--stage` makes a source for mdbook instead, which adds the pages outside of
docs that the book links to: mdbook renders only pages of its summary. `--built` checks the links of
the pages that mdbook made.
"""
import pathlib
import re
import shutil
import sys
import urllib.parse

DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "docs/**/*.md")
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


def linked_pages(root, name):
    """The documents that a document links to."""
    for _, target in links((root / name).read_text()):
        file = ((root / name).parent / target.partition("#")[0]).resolve()
        if file.suffix == ".md" and file.is_file() and root in file.parents:
            yield file.relative_to(root).as_posix()


def stage(root, folder):
    """Copies the book and all pages that it links to, and lists those at the end of its summary."""
    root = root.resolve()
    pages = [path.relative_to(root).as_posix() for path in sorted(root.glob("docs/**/*.md"))]
    outside = []
    for name in pages:
        for linked in linked_pages(root, name):
            if linked not in pages:
                pages.append(linked)
                outside.append(linked)
    shutil.copytree(root / "docs", folder / "docs")
    for name in outside:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, folder / name)
    (folder / "docs/SUMMARY.md").unlink()
    shutil.move(folder / "docs/book.toml", folder)
    # The first page is also index.html, so it must be in the folder of index.html.
    summary = (root / SUMMARY).read_text().removeprefix("# Summary").strip()
    summary = re.sub(r"\]\((?=[^)])", "](docs/", summary)
    listed = "".join(f"- [{name}]({name})\n" for name in sorted({*outside} - {"README.md"}))
    (folder / "SUMMARY.md").write_text(
        f"# Summary\n\n[README](README.md)\n{summary}\n\n# In the repository\n\n{listed}"
    )


def check_built(folder):
    """Every page that a rendered page links to is there."""
    errors = []
    for page in sorted(folder.glob("**/*.html")):
        for target in re.findall(r'href="([^"#]+\.html)(?:#[^"]*)?"', page.read_text()):
            if not ELSEWHERE.match(target) and not (page.parent / target).is_file():
                errors.append(f"{page.relative_to(folder)}: `{target}` leads nowhere")
    return sorted(set(errors))


def main():
    if sys.argv[1:2] == ["--built"] and len(sys.argv) == 3:
        errors = check_built(pathlib.Path(sys.argv[2]))
        sys.exit("\n".join(errors) or None)
    if sys.argv[1:2] == ["--stage"] and len(sys.argv) == 3:
        stage(pathlib.Path.cwd(), pathlib.Path(sys.argv[2]))
        return
    errors, count = check(pathlib.Path.cwd())
    for error in errors:
        print(error, file=sys.stderr)
    if errors:
        sys.exit(1)
    print(f"book: all links of {count} documents lead somewhere")


if __name__ == "__main__":
    main()
