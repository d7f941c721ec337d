"""figures.py [--write]: compares the figures in the documents with the records.

A figure in a document stands between two comments, which Markdown does not show:

    The floor is <!--fig xeon-floor-->16.5<!--/fig--> ns.

`benches/record/figures.md` binds each name to one place in one record, and explains its columns.
`--write` replaces what stands between the comments. Each error is one line.
"""
import decimal
import pathlib
import re
import sys
from dataclasses import dataclass, field

RECORDS = "benches/record"
TABLE = f"{RECORDS}/figures.md"
DOCUMENTS = ("README.md", "docs/**/*.md")
NOT_MEASURED = "Not measured"

HEAD = re.compile(r"\|[-|]+$|\| (?:figure|document) \|")
MARKER = re.compile(r"(<!--fig (\S+?)-->)(.*?)(<!--/fig-->)")
HALF_MARKER = re.compile(r"<!--/?fig\b")
# A hyphen with a space behind it is an empty cell of a table.
NUMBER = re.compile(r"(?:(?<![\w.)])(?:[−+] ?|-))?(?<![\w.])\d+(?:\.\d+)?")
FORM = re.compile(r"(0(?:\.0+)?)(?: ÷ (\d+))?")
CODE = re.compile(r"(`+).+?\1")
FENCE = re.compile(r"\s*(```|~~~)")
# A text that looks like a measurement needs a name or a row under "Not measured".
MEASUREMENT = re.compile(
    r"(?<![\w.,])\d+(?:\.\d+)?(?: ?(?:ns|µs|ms|s|[KMG]i?B|×|%)(?![\w/])"
    r"| (?:million|milliseconds?|seconds?|times (?:as|that)|instructions|bytes (?:per|of))\b)"
)

# The first day whose records must state everything.
COMPLETE_SINCE = "2026-11-24"
# The statements of every record, and the text by which the script finds each.
STATEMENTS = {
    "machine": re.compile(r"(?:Xeon|EPYC|Ryzen|Core|Apple|Graviton|Neoverse).*\bcores?\b"),
    "command": re.compile(
        r"(?:^|`)(?:\w+=\S+ )*(?:(?:cargo|python3?|node|taskset) \S|\.ci/\w)", re.MULTILINE
    ),
    "commit": re.compile(r"\b[Cc]ommit [0-9a-f]{7,40}\b"),
}


@dataclass
class Figure:
    record: str
    text: str
    numbers: tuple
    form: tuple
    place: str
    used: bool = False


@dataclass
class Row:
    """Text of a document that looks like a measurement and is none."""

    document: str
    text: str
    place: str


@dataclass
class Table:
    figures: dict = field(default_factory=dict)
    # For each record the statements that it lacks.
    lacks: dict = field(default_factory=dict)
    not_measured: list = field(default_factory=list)


class Wrong(Exception):
    """A figure that has no value."""


def plain(text):
    """The text with single spaces, since records are aligned with many."""
    return " ".join(text.split())


def read_table(root, errors):
    """Reads figures.md."""
    table, record = Table(), None
    for number, line in enumerate((root / TABLE).read_text().splitlines(), 1):
        place = f"{TABLE}:{number}"
        if line.startswith("## "):
            record = line[3:].strip()
            if record == NOT_MEASURED:
                continue
            if record in table.lacks:
                errors.append(f"{place}: {record} has two sections")
            table.lacks[record] = {}
        elif lacking := re.match(r"No (machine|command|commit): (.+)", line):
            table.lacks.setdefault(record, {})[lacking[1]] = place
        elif record and line.startswith("|") and not HEAD.match(line):
            cells = [plain(cell).replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)][1:-1]
            if record == NOT_MEASURED and len(cells) == 3:
                table.not_measured.append(Row(cells[0], cells[1], place))
                continue
            numbers = re.fullmatch(r"(\d)(?:–(\d))?", cells[2]) if len(cells) == 4 else None
            form = FORM.fullmatch(cells[3]) if numbers else None
            if not form:
                errors.append(f"{place}: this row is no figure")
            elif cells[0] in table.figures:
                errors.append(f"{place}: {cells[0]} has two rows")
            else:
                table.figures[cells[0]] = Figure(
                    record,
                    cells[1],
                    tuple(int(n) for n in numbers.groups() if n),
                    (form[1], form[2] or "1"),
                    place,
                )
    return table


def show(number, form):
    """The number as the form says: with as many decimal places, divided."""
    shape, divisor = form
    value = decimal.Decimal(number.replace("−", "-").replace(" ", "").lstrip("+"))
    value = (value / decimal.Decimal(divisor)).quantize(
        decimal.Decimal(shape), rounding=decimal.ROUND_HALF_UP
    )
    return str(value).lstrip("-") if value == 0 else str(value)


def find(figure, lines):
    """The line number and the value of a figure in the lines of its record."""
    lines = [plain(line) for line in lines]
    first, *rest = [plain(part) for part in figure.text.split(">>")]
    count = sum(line.count(first) for line in lines)
    if count != 1:
        raise Wrong(f"`{first}` occurs {count} times in {figure.record}, not once")
    index = next(index for index, line in enumerate(lines) if first in line)
    end = lines[index].index(first) + len(first)
    for part in rest:
        while part not in lines[index][end:]:
            index, end = index + 1, 0
            if index == len(lines):
                raise Wrong(f"`{part}` does not occur behind `{first}` in {figure.record}")
        end = lines[index].index(part, end) + len(part)
    numbers = [found[0] for found in NUMBER.finditer(lines[index], end)]
    if max(figure.numbers) > len(numbers):
        raise Wrong(f"{len(numbers)} numbers stand behind `{figure.text}` in {figure.record}")
    shown = [show(numbers[n - 1], figure.form) for n in figure.numbers]
    return index + 1, "–".join(dict.fromkeys(shown))


def read_values(root, table, errors):
    """The place in its record and the value of each figure."""
    records = {}
    for record, lacking in table.lacks.items():
        path = root / RECORDS / record
        if not path.is_file():
            errors.append(f"{RECORDS}/{record}: there is no such record")
            continue
        text = path.read_text()
        records[record] = text.splitlines()
        for statement, pattern in STATEMENTS.items():
            found = pattern.search(text)
            if found and statement in lacking:
                errors.append(f"{lacking[statement]}: {record} states its {statement}")
            elif statement in lacking and record >= COMPLETE_SINCE:
                errors.append(f"{lacking[statement]}: {record} is too new to lack its {statement}")
            elif not found and statement not in lacking:
                errors.append(f"{RECORDS}/{record}: the record does not state its {statement}")
    values = {}
    for name, figure in table.figures.items():
        if figure.record not in records:
            continue
        try:
            line, value = find(figure, records[figure.record])
            values[name] = f"{RECORDS}/{figure.record}:{line}", value
        except Wrong as error:
            errors.append(f"{figure.place}: {name}: {error}")
    return values


def check_line(line, place, table, values, write, errors):
    """The line with its figures as they should be, and the line without them."""

    def figure(match):
        begin, name, shown, end = match.groups()
        if name not in table.figures:
            errors.append(f"{place}: {name} has no row in {TABLE}")
            return match[0]
        table.figures[name].used = True
        if name not in values:
            return match[0]
        source, value = values[name]
        if value != shown and not write:
            errors.append(f"{place}: {name} is {shown}, the record says {value} ({source})")
        return begin + (value if write else shown) + end

    rest = MARKER.sub("", line)
    if line.lstrip().startswith("<!--fig "):
        errors.append(f"{place}: Markdown does not format a line that begins with a figure")
    if HALF_MARKER.search(rest):
        errors.append(f"{place}: a comment of a figure lacks its other half")
    return MARKER.sub(figure, line), rest


def check_document(root, name, table, values, write, errors):
    """Compares the figures of one document, or writes them."""
    path = root / name
    before = path.read_text()
    lines = before.splitlines(keepends=True)
    unseen = {row.text: row.place for row in table.not_measured if row.document == name}
    not_measured = list(unseen)
    fence = False
    for index, line in enumerate(lines):
        place = f"{name}:{index + 1}"
        if FENCE.match(line):
            fence = not fence
        elif fence:
            if HALF_MARKER.search(line):
                errors.append(f"{place}: a block of code shows the comments of a figure")
        else:
            lines[index], rest = check_line(line, place, table, values, write, errors)
            for text in not_measured:
                if text in rest:
                    rest = rest.replace(text, "")
                    unseen.pop(text, None)
            for match in MEASUREMENT.finditer(CODE.sub("``", rest)):
                errors.append(f"{place}: `{match[0].strip()}` is bound to no record")
    for text, place in unseen.items():
        errors.append(f"{place}: {name} does not contain `{text}`")
    after = "".join(lines)
    if after != before:
        path.write_text(after)


def check(root, write=False):
    """All errors, as lines of text."""
    errors = []
    table = read_table(root, errors)
    values = read_values(root, table, errors)
    documents = [
        path.relative_to(root).as_posix()
        for pattern in DOCUMENTS
        for path in sorted(root.glob(pattern))
    ]
    for name in documents:
        check_document(root, name, table, values, write, errors)
    for row in table.not_measured:
        if row.document not in documents:
            errors.append(f"{row.place}: there is no document {row.document}")
    for name, figure in table.figures.items():
        if not figure.used:
            errors.append(f"{figure.place}: no document shows {name}")
    return errors, len(table.figures)


def main():
    arguments = sys.argv[1:]
    if arguments not in ([], ["--write"]):
        sys.exit("usage: figures.py [--write]")
    errors, count = check(pathlib.Path.cwd(), bool(arguments))
    for error in errors:
        print(error, file=sys.stderr)
    if errors:
        sys.exit(1)
    print(f"figures: all {count} figures are those of their records")


if __name__ == "__main__":
    main()
