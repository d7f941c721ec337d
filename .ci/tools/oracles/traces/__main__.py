"""python3 -m traces ROWS READER TRACE [ABSENT...]: compares a trace with what was recorded.

ROWS are lines of JSON as the test `recorder_perfetto` writes them, with events of every kind that
is not in ABSENT. READER is the program that reads the trace:

processor   of a Perfetto trace: the answers of the trace processor in TRACE.slices, TRACE.flows
            and TRACE.counters
schema      of a Perfetto trace: TRACE.pftrace, decoded by Perfetto's published schema
chrome      of a Chrome trace: the answers of the trace processor
json        of a Chrome trace: TRACE.json, read by a strict JSON parser
"""
import sys

from . import chrome_json, compare, processor, recorded
from .events import Invalid


def main(argv):
    if len(argv) < 3:
        sys.exit(__doc__)
    rows, reader, trace, *absent = argv
    try:
        expected, found = _read(rows, reader, trace)
    except Invalid as error:
        sys.exit(f"{trace}: {error}")
    lines, wrong = compare.differences(expected, found, absent)
    print("\n".join(lines))
    return 1 if wrong else 0


def _read(rows, reader, trace):
    """Returns the recorded events and those of the trace."""
    if reader == "processor":
        return recorded.read(rows), processor.read(trace)
    if reader == "schema":
        # The schema's classes need a package that the other readers do without.
        from . import schema

        return recorded.read(rows), schema.read(trace)
    if reader == "chrome":
        both = recorded.read_for_chrome(rows), processor.read_chrome(trace)
        return tuple(map(compare.to_14_digits, both))
    if reader == "json":
        return recorded.read_for_chrome(rows), chrome_json.read(trace)
    sys.exit(f"unknown reader `{reader}`")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
