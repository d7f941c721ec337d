"""python3 -m tables FOLDER: compares exported tables with the capture.

FOLDER is what the test `parquet_recorded` writes: spans and metrics of the capture as lines of
JSON, and the tables as single files and as a data set in folders.
"""
import pathlib
import sys

from . import checks


def main(argv):
    if len(argv) != 1:
        sys.exit(__doc__)
    try:
        for check in checks.ALL:
            for line in check(pathlib.Path(argv[0])):
                print(line)
    except checks.Mismatch as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
