"""`vor.read` and the capture that it returns."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from vor import _command, _core, _tables
from vor._core import CaptureError, Table

if TYPE_CHECKING:
    from types import TracebackType

    import pandas
    import polars
    import pyarrow

# Formats of `Capture.export` by the file's extension. The longest match counts.
_FORMATS = {
    ".pftrace": "perfetto",
    ".perfetto-trace": "perfetto",
    ".json": "chrome",
    ".firefox.json": "firefox",
    ".speedscope.json": "speedscope",
    ".folded": "collapsed",
    ".collapsed": "collapsed",
    ".txt": "collapsed",
    ".pb.gz": "pprof",
    ".pprof": "pprof",
    ".csv": "csv",
    ".metrics.csv": "metrics-csv",
    ".parquet": "parquet",
}


def read(path: str | os.PathLike[str]) -> Capture:
    """Open a capture: a file, a folder of segments, or a pattern such as ``"captures/*.vor"``.

    It may still be growing. Segments that are missing or cannot be read are warnings.

    Its contents are read at first use and stay in memory. Damaged parts are skipped, and
    `Capture.skipped` lists them. Raises `vor.CaptureError`, an OSError, if the file cannot be read
    or is not a capture.
    """
    return Capture(path)


class Capture(Sequence["Frame"]):
    """The frames of a capture, and tables of their contents.

    A sequence of frames: ``len(capture)``, ``capture[-1]``, ``for frame in capture``. A slice,
    ``capture[10:20]``, is a capture of only these frames. The whole capture also has the spans that
    ended after the last frame.

    NumPy reads columns of tables without a copy: ``numpy.asarray(capture.spans["dur_ns"])``. Every
    library that reads Arrow streams can read tables. Times are in nanoseconds since 1970, and
    durations in nanoseconds.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open a capture; `vor.read` does the same."""
        self._path = Path(path)
        self._core = _core.Reading(self._path)
        for problem in self._core.problems():
            warnings.warn(problem, stacklevel=3)
        # The numbers of the first and the last frame, or None for the whole capture.
        self._numbers: tuple[int, int] | None = None
        # The capture that this is a slice of. Never itself, because the last reference closes the
        # file.
        self._whole: Capture | None = None
        self._forget()

    def _forget(self) -> None:
        self._frames: Table | None = None
        self._tables: tuple[Table, Table, Table, Table] | None = None
        self._metrics: Table | None = None
        self._stats: Table | None = None

    def _part(self, frames: Table) -> Capture:
        part = object.__new__(Capture)
        part._path, part._core, part._whole = (
            self._path,
            self._core,
            self if self._whole is None else self._whole,
        )
        part._forget()
        part._frames = frames
        # No frame has a number from 1 to 0.
        part._numbers = (frames[0]["frame"], frames[-1]["frame"]) if len(frames) else (1, 0)
        return part

    @property
    def path(self) -> Path:
        """The file, the folder of segments, or the pattern."""
        return self._path

    @property
    def info(self) -> dict[str, Any]:
        """The properties of the capture, as in ``vor info --json``.

        They include its version, process, threads and counts, and whether the file is closed.
        """
        return self._core.info()

    @property
    def skipped(self) -> dict[str, Any]:
        """Damage found so far, as in the command's JSON.

        The keys are ``count``, ``bytes``, ``losses`` and ``tail``.
        In a file with an index, damage is found only when its place is read. `verify` reads
        everything.
        """
        return self._core.skipped()

    def verify(self) -> dict[str, Any]:
        """Read the whole file, check every checksum, and return the damage, as `skipped` does."""
        return self._core.verify()

    @property
    def frames(self) -> Table:
        """A row per frame.

        Columns: ``frame`` (its number), ``start_ns``, ``dur_ns``, ``spans``, ``dropped_spans``,
        ``merged_marks``, ``lost_records``.
        """
        if self._frames is None:
            self._frames = self._core.frames()
        return self._frames

    def _all(self) -> tuple[Table, Table, Table, Table]:
        if self._tables is None:
            whole = None if self._whole is None else self._whole._tables
            if whole is not None and self._numbers is not None:
                spans, tasks, messages, metrics = whole
                of = self._numbers
                self._tables = (
                    spans.of_frames(*of),
                    tasks.of_frames(*of),
                    messages.of_frames(*of),
                    metrics.of_frames(*of),
                )
            else:
                self._tables = self._core.gather(self._numbers, True)
        return self._tables

    @property
    def spans(self) -> Table:
        """A row per span.

        Columns: ``thread``, ``tid``, ``frame``, ``depth``, ``name``, ``file``, ``line``,
        ``start_ns``, ``dur_ns``, ``self_ns``, ``args``, as in ``vor export --to parquet``. Rows are
        in the order in which the spans ended, thread by thread within a batch of the recorder.
        """
        return self._all()[0]

    @property
    def tasks(self) -> Table:
        """A row per task, from its first activation to its end, waiting included.

        Columns: ``thread``, ``tid``, ``frame``, ``id``, ``name``, ``file``, ``line``, ``start_ns``,
        ``dur_ns``, ``busy_ns``, ``polls``. A coroutine was active for ``busy_ns``, in ``polls``
        activations, and waited for the rest of ``dur_ns``. Both are 0 for a task without recorded
        activations, such as a block that stayed open while its coroutine waited.
        """
        return self._all()[1]

    @property
    def messages(self) -> Table:
        """A row per message."""
        return self._all()[2]

    @property
    def metrics(self) -> Table:
        """A row per metric of a frame: ``frame``, ``time_ns``, ``name``, ``unit``, ``value``."""
        if self._tables is not None or (
            self._whole is not None and self._whole._tables is not None
        ):
            return self._all()[3]
        if self._metrics is None:
            whole = None if self._whole is None else self._whole._metrics
            if whole is not None and self._numbers is not None:
                self._metrics = whole.of_frames(*self._numbers)
            else:
                self._metrics = self._core.gather(self._numbers, False)[3]
        return self._metrics

    def stats(self) -> Table:
        """Return a row per scope, the largest self time first.

        The values are those of ``vor stats --json``.
        """
        if self._stats is None:
            self._stats = self._core.stats(self._numbers)
        return self._stats

    def to_polars(self) -> polars.DataFrame:
        """Return the spans as a DataFrame of Polars, which must be installed."""
        return self.spans.to_polars()

    def to_pandas(self) -> pandas.DataFrame:
        """Return the spans as a DataFrame of pandas, which must be installed."""
        return self.spans.to_pandas()

    def to_arrow(self) -> pyarrow.Table:
        """Return the spans as a Table of PyArrow, which must be installed."""
        return self.spans.to_arrow()

    def __len__(self) -> int:
        """Return the number of frames that can be read."""
        return len(self.frames)

    @overload
    def __getitem__(self, at: int, /) -> Frame: ...
    @overload
    def __getitem__(self, at: slice, /) -> Capture: ...
    def __getitem__(self, at: int | slice, /) -> Frame | Capture:
        """Return a frame by its position, or a capture of the frames of a slice."""
        if isinstance(at, slice):
            return self._part(self.frames[at])
        row = self.frames[at]
        return Frame(self._part(self.frames.of_frames(row["frame"], row["frame"])), row)

    def __iter__(self) -> Iterator[Frame]:
        """Return the frames one by one."""
        return (self[at] for at in range(len(self)))

    def refresh(self) -> int:
        """Read the records written since the last refresh, and return the number of frames.

        The first call reads those written since the capture was opened. Tables that were read
        before do not change. A capture that was already closed when it was opened does not grow.
        """
        if self._whole is not None:
            raise ValueError(
                f"{self._path}: a slice of a capture does not change; refresh the capture"
            )
        before = len(self.frames)
        self._core.extend()
        self._frames = self._core.frames()
        if len(self._frames) != before or not self.info["closed"]:
            frames, self._frames = self._frames, None
            self._forget()
            self._frames = frames
        return len(self)

    def follow(self, *, interval_s: float = 0.2, timeout_s: float | None = None) -> Iterator[Frame]:
        """Yield the frames, and then new ones as the program records them.

        Ends when the recorder has closed the file, or after `timeout_s` without a new frame.
        """
        at = 0
        waited_since = time.monotonic()
        while True:
            while at < len(self):
                yield self[at]
                at += 1
                waited_since = time.monotonic()
            if self.refresh() > at:
                continue
            if self.info["closed"] or (
                timeout_s is not None and time.monotonic() - waited_since >= timeout_s
            ):
                return
            time.sleep(interval_s)

    def export(self, out: str | os.PathLike[str], format: str | None = None) -> None:
        """Write the capture in the format of another program, as ``vor export`` does.

        The extension chooses the format, unless `format` is given: ``.pftrace`` (ui.perfetto.dev),
        ``.json`` (Chrome), ``.firefox.json``, ``.speedscope.json``, ``.folded`` (flame graphs),
        ``.pb.gz`` (pprof), ``.csv``, ``.metrics.csv``, ``.parquet``. A slice writes only its
        frames. Warns about omitted contents, which are damaged or which the format cannot hold.
        """
        out = os.fspath(out)
        if format is None:
            extensions = [extension for extension in _FORMATS if out.lower().endswith(extension)]
            if not extensions:
                raise ValueError(
                    f"{out}: unknown extension; use one of {', '.join(_FORMATS)}, or pass `format`"
                )
            format = _FORMATS[max(extensions, key=len)]
        arguments = ["export", "--to", format, "-o", out, os.fspath(self._path)]
        if self._numbers is not None:
            first, last = self._numbers
            if first > last:
                raise ValueError(f"{self._path}: no frames to export")
            arguments += ["--frames", f"{first}..={last}"]
        output = _command.run(arguments)
        if output:
            warnings.warn(output, stacklevel=2)

    def close(self) -> None:
        """Close the file. Tables that were read stay valid, but no more can be read."""
        self._core.close()

    def __enter__(self) -> Capture:
        """Return the capture. The end of the block closes it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        """Close the file."""
        self.close()

    def __repr__(self) -> str:
        """Return a line with the file and the number of frames."""
        try:
            return f"<vor.Capture {self._path}: {len(self)} frames>"
        except (OSError, ValueError):
            return f"<vor.Capture {self._path}>"

    def _repr_html_(self) -> str:
        from vor import _notebook

        return _notebook.html(self)


class Frame:
    """The time between two frame marks, and its contents."""

    def __init__(self, part: Capture, row: dict[str, Any]) -> None:
        """Make the frame of a capture with one frame."""
        self._part = part
        self._row = row

    @property
    def index(self) -> int:
        """Its number, counted by the program."""
        return int(self._row["frame"])

    @property
    def start_ns(self) -> int:
        """Its start, in nanoseconds since 1970."""
        return int(self._row["start_ns"])

    @property
    def dur_ns(self) -> int:
        """Its duration, in nanoseconds."""
        return int(self._row["dur_ns"])

    @property
    def span_count(self) -> int:
        """The number of spans that ended in it."""
        return int(self._row["spans"])

    @property
    def dropped_spans(self) -> int:
        """The number of spans lost in it because a ring was full."""
        return int(self._row["dropped_spans"])

    @property
    def lost_records(self) -> int:
        """The number of its damaged records, 0 if it is complete."""
        return int(self._row["lost_records"])

    @property
    def spans(self) -> Table:
        """The spans that ended in it, with the columns of `Capture.spans`."""
        return self._part.spans

    @property
    def tasks(self) -> Table:
        """The tasks that ended in it, with the columns of `Capture.tasks`."""
        return self._part.tasks

    @property
    def messages(self) -> Table:
        """The messages in it, with the columns of `Capture.messages`."""
        return self._part.messages

    @property
    def metrics(self) -> dict[str, float]:
        """The values of its metrics by name."""
        metrics = self._part.metrics
        return dict(zip(metrics["name"], metrics["value"]))

    def __repr__(self) -> str:
        """Return a line with its number, duration and number of spans."""
        return f"<vor.Frame {self.index}: {_tables.duration(self.dur_ns)}, {self.span_count} spans>"


__all__ = ["Capture", "CaptureError", "Frame", "Table", "read"]
