"""speedscope in a headless browser: the table of names with total and self times per thread."""
import base64
import collections
import html
import json
import re
import subprocess

from .spans import Mismatch, stacks

# Loading a page takes some seconds. Threads that did the same add nothing, so only the first few
# are loaded.
MAX_THREADS = 4
UNIT_NS = {"ns": 1, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9}


def check(threads, _names, page, path, chromium, scratch):
    with open(path, encoding="utf-8") as file:
        profile = json.load(file)
    rows = 0
    for index, (tid, spans) in list(enumerate(threads.items()))[:MAX_THREADS]:
        profile["activeProfileIndex"] = index
        shown = _table_of(_dom(page, profile, chromium, scratch), profile["name"])
        _compare_times(f"speedscope, thread {tid}", shown, _times_by_name(spans))
        rows += len(shown)
    return f"speedscope: total and self times of {rows} names agree"


def _dom(page, profile, chromium, scratch):
    """Returns the page's document after it has loaded the profile."""
    data = base64.b64encode(json.dumps(profile).encode()).decode()
    with open(f"{scratch}/profile.js", "w", encoding="utf-8") as script:
        script.write(f'speedscope.loadFileFromBase64("profile.json", "{data}")')
    url = f"file://{page}#localProfilePath={scratch}/profile.js&view=sandwich"
    command = [
        chromium, "--headless", "--no-sandbox", "--disable-gpu",
        f"--user-data-dir={scratch}/chromium", "--virtual-time-budget=8000", "--dump-dom", url,
    ]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=120
    )
    return done.stdout.decode()


def _table_of(dom, name):
    """Returns the texts for total and self time that the table shows for each name."""
    if "Something went wrong" in dom or name not in dom.partition("</title>")[0]:
        raise Mismatch(f"speedscope does not load {name}")
    texts = [html.unescape(text) for text in re.findall(r">([^<]+)<", dom)]
    # The cells follow the heading of the table: total, self, name.
    cells = texts[texts.index("Symbol Name") + 1 :]
    return {cells[i + 2]: (cells[i], cells[i + 1]) for i in range(0, len(cells) - 2, 3)}


def _times_by_name(spans):
    total, own = collections.Counter(), collections.Counter()
    for stack, (total_ns, own_ns) in stacks(spans).items():
        own[stack[-1]] += own_ns
        # A recursive call is part of the outer call's time.
        if stack[-1] not in stack[:-1]:
            total[stack[-1]] += total_ns
    return {name: (ns, own[name]) for name, ns in total.items()}


def _compare_times(what, shown, recorded):
    if shown.keys() != recorded.keys():
        raise Mismatch(f"{what}: shows {sorted(shown)}, recorded {sorted(recorded)}")
    for name, texts in shown.items():
        for text, ns in zip(texts, recorded[name]):
            least, most = _range_ns(text)
            if not least <= ns <= most:
                raise Mismatch(f"{what}: {name}: shows {text}, recorded {ns} ns")


def _range_ns(text):
    """Returns the least and the greatest time that a rounded text can mean.

    speedscope shows minutes and hours in another form; no recording here takes so long.
    """
    match = re.fullmatch(r"([0-9.]+)([^0-9. ]+) \(.*", text)
    if not match:
        raise Mismatch(f"speedscope: `{text}` is not a time")
    number, unit = match.groups()
    decimals = len(number.partition(".")[2])
    half = UNIT_NS[unit] * 10**-decimals * 0.51
    return float(number) * UNIT_NS[unit] - half, float(number) * UNIT_NS[unit] + half
