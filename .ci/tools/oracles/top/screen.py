"""A screen of `vor top`."""
import re

WIDTH, HEIGHT = 80, 24
# The table ends above the line with the keys.
TITLE_LINE, HEAD_LINE, LAST_LINE = 5, 6, 23
UNITS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


class Mismatch(Exception):
    pass


def expect(condition, message):
    if not condition:
        raise Mismatch(f"top: FAILED: {message}")


class Screen:
    def __init__(self, text):
        self.text = text
        self.lines = text.rstrip("\n").split("\n")
        expect(len(self.lines) <= HEIGHT, f"{len(self.lines)} lines")
        widest = max(len(line) for line in self.lines)
        expect(widest <= WIDTH, f"a line of {widest} characters")
        self.lines += [""] * (HEIGHT - len(self.lines))

    @property
    def title(self):
        return self.lines[TITLE_LINE]

    def rows(self):
        """Returns the cells of each row by its name. Columns end where their heads end."""
        head = self.lines[HEAD_LINE]
        ends = [match.end() for match in re.finditer(r"\S+", head)]
        names = head.split()
        rows = {}
        for line in self.lines[HEAD_LINE + 1:LAST_LINE]:
            if not line.strip():
                break
            # Names have spaces, and two of them precede a number.
            name = re.split(r"\s{2,}", line.strip())[0]
            begins = [line.index(name) + len(name), *ends[1:]]
            cells = [line[begin:end].strip() for begin, end in zip(begins, ends[1:])]
            rows[name] = dict(zip(names[1:], cells))
        return rows


def number(text):
    """Returns the value of a cell: a count, a duration in seconds, or 0 for nothing."""
    if text == "-":
        return 0.0
    match = re.fullmatch(r"([0-9][0-9,\u202f ]*\.?[0-9]*)\s*(\D*)", text)
    expect(match, f"`{text}` is no number")
    digits, unit = match[1].replace(",", "").replace(" ", "").replace("\u202f", ""), match[2]
    expect(not unit or unit in UNITS, f"`{text}` has another unit")
    return float(digits) * UNITS.get(unit, 1.0)
