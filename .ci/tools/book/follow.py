"""Follows a tutorial word by word, as a reader does.

    python3 follow.py PAGE FOLDER

Files that the page says to write ("Put this into `FILE`") are written into FOLDER, and its commands
run there in one shell, one block of `sh` after the other. The first command that fails ends it,
except one whose text says that it "exits with 1" or another code. `$VOR` is this repository. The
last line is the time that everything took.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FENCE = re.compile(r"```([a-z]*)[^\n]*\n(.*?)^```$", re.M | re.S)
INTO = re.compile(r"Put this into `([^`]+)`")
EXITS = re.compile(r"exits with (\d+)")


def script(page):
    """Return the shell script that does what a page says."""
    lines = ["set -eu"]
    end = 0
    for block in FENCE.finditer(page):
        before, end = page[end : block.start()], block.end()
        before = before[before.rfind("\n#") + 1 :]
        language, text = block.groups()
        into = INTO.search(before)
        if into:
            lines.append(f"mkdir -p \"$(dirname '{into[1]}')\"")
            lines.append(f"cat >'{into[1]}' <<'END OF FILE'\n{text}END OF FILE")
        elif language == "sh":
            code = EXITS.search(before)
            shown = "\n".join(f"+ {line}" for line in text.splitlines())
            lines.append(f"cat <<'END OF BLOCK'\n{shown}\nEND OF BLOCK")
            if code:
                lines += ["status=0", f"{{\n{text}}} || status=$?", f"[ $status = {code[1]} ]"]
            else:
                lines.append(text)
    return "\n".join(lines) + "\n"


def main(page, folder):
    text = Path(page).read_text("utf-8")
    Path(folder).mkdir(parents=True, exist_ok=True)
    repository = Path(__file__).resolve().parents[3]
    with tempfile.NamedTemporaryFile("w", suffix=".sh") as file:
        file.write(script(text))
        file.flush()
        begin = time.monotonic()
        environment = os.environ | {"VOR": str(repository)}
        done = subprocess.run(["bash", file.name], cwd=folder, env=environment, check=False)
    minutes = (time.monotonic() - begin) / 60
    result = "done" if done.returncode == 0 else f"FAILED with {done.returncode}"
    print(f"{Path(page).name}: {result} after {minutes:.1f} minutes", flush=True)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
