"""Notebooks: a capture as a plot and a table, and the magic `%%vor`."""

from __future__ import annotations

import html as _html
from typing import TYPE_CHECKING, Any

from vor import _tables

if TYPE_CHECKING:
    from vor._reading import Capture

# Size of the plot, in SVG units.
_WIDTH, _HEIGHT, _MARGIN = 640, 120, 16


def html(capture: Capture) -> str:
    """Return a plot of frame durations, and a table of the scopes with the largest self time."""
    info = capture.info
    stats = capture.stats()
    spans = sum(stats["count"])
    title = f"{capture.path.name}: {len(capture):,} frames, {spans:,} spans"
    process = f"{info['process']} ({info['pid']})" if info["process"] else ""
    rows = []
    total = sum(stats["self_ns"]) or 1
    for row in (stats[at] for at in range(min(len(stats), 10))):
        cells = (
            row["name"],
            f"{row['count']:,}",
            _tables.duration(row["self_ns"]),
            f"{100 * row['self_ns'] / total:.1f} %",
            _tables.duration(row["total_ns"]),
            _tables.duration(row["mean_ns"]),
            _tables.duration(row["p99_ns"]),
        )
        rows.append(
            "<tr>" + "".join(f"<td>{_html.escape(str(cell))}</td>" for cell in cells) + "</tr>"
        )
    heads = "".join(
        f"<th>{head}</th>" for head in ("scope", "count", "self", "%", "total", "mean", "p99")
    )
    skipped = capture.skipped
    damage = (
        f"<p>{skipped['count']} places damaged, {skipped['bytes']:,} bytes skipped</p>"
        if skipped["count"]
        else ""
    )
    return (
        f"<div><p><b>{_html.escape(title)}</b> {_html.escape(process)}</p>{damage}{_plot(capture)}"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _plot(capture: Capture) -> str:
    lengths = list(capture.frames["dur_ns"])
    if not lengths:
        return ""
    longest = max(max(lengths), 1)
    # One bar per frame, or per group of frames. The bar of a group shows its longest frame, so that
    # no slow frame is hidden.
    bars = min(len(lengths), _WIDTH // 2)
    width = _WIDTH / bars
    path = []
    for bar in range(bars):
        group = lengths[bar * len(lengths) // bars : (bar + 1) * len(lengths) // bars]
        height = max(group) / longest * _HEIGHT
        path.append(
            f"M{bar * width:.2f} {_HEIGHT + _MARGIN}"
            f"v{-height:.2f}h{max(width - 0.5, 0.5):.2f}v{height:.2f}z"
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT + _MARGIN}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT + _MARGIN}" role="img" '
        f'aria-label="duration of each frame">'
        f'<text x="0" y="11" font-size="11" fill="currentColor">'
        f"frame time, up to {_tables.duration(longest)}</text>"
        f'<path d="{"".join(path)}" fill="#4c78a8"/></svg>'
    )


def load(ipython: Any) -> None:
    """Register the magic `%%vor`."""
    ipython.register_magic_function(_magic(ipython), magic_kind="cell", magic_name="vor")


def _magic(ipython: Any) -> Any:
    def vor(line: str, cell: str) -> Capture | None:
        """Run the cell with recording on, and show its time by scope.

        %%vor [--scopes] [FILE]

        Every Python call is recorded, or with --scopes only those marked with `vor.profile` and
        `vor.scope`. The capture is the result of the cell. It is written to FILE, or without FILE
        to a temporary file that is deleted when the interpreter ends.
        """
        import shlex

        words = shlex.split(line)
        only_scopes = "--scopes" in words
        names = [word for word in words if word != "--scopes"]
        if len(names) > 1 or any(name.startswith("-") for name in names):
            raise ValueError(f"%%vor: unknown arguments {line}; usage: %%vor [--scopes] [FILE]")
        return record(
            lambda: ipython.run_cell(cell).success,
            names[0] if names else None,
            calls=not only_scopes,
        )

    return vor


def record(run: Any, out: str | None, *, calls: bool) -> Capture | None:
    """Record a call of `run`, and return the capture, or None if `run` returns false."""
    import atexit
    import os
    import shutil
    import tempfile

    import vor
    from vor import _core, _monitor, _reading

    if vor.is_enabled():
        raise RuntimeError(
            f"%%vor: recording is already on, into {vor.capture_path()}; call vor.disable() first"
        )
    folder = None if out is not None else tempfile.mkdtemp(prefix="vor-")
    if folder is not None:
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = out if folder is None else os.path.join(folder, "cell.vor")
    vor.enable(capture=path)
    here = os.path.dirname(os.path.abspath(__file__))
    try:
        if calls:
            _core.trace(True, [], [here], 0.0, False)
            _monitor.trace(True, False)
        try:
            with vor.scope("cell"):
                is_done = run()
        finally:
            if calls:
                _monitor.trace(False, False)
                _core.trace(False, [], [], 0.0, False)
            vor.frame_mark()
    finally:
        vor.disable()
        written = vor.close_capture()
    return _reading.read(written) if is_done and written is not None else None
