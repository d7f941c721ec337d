"""GPU scopes, GPU memory as metrics, and NVTX ranges for Nsight, with PyTorch.

    from vor.integrations import torch as vor_torch

    with vor_torch.scope("forward"):
        loss = model(batch)
    vor_torch.record_memory()
    vor.frame_mark()

Work that a scope starts on the GPU continues after the scope has ended. So two events in the stream
measure its GPU time. They are read when the GPU has passed both, and nothing waits for the GPU.
"""

# pyright resolves `torch` to this file.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import Any

import vor

try:
    import torch as _torch
except ModuleNotFoundError as _error:
    if _error.name != "torch":
        raise
    raise ModuleNotFoundError("torch is not installed: `pip install torch`", name="torch") from None

# Metric, start event and end event of scopes that the GPU has not passed yet, in the order of the
# stream. Beyond this number, the oldest are dropped: times of a GPU that far behind say nothing
# about a frame.
_MAX_PENDING = 4096
_pending: deque[tuple[str, Any, Any]] = deque(maxlen=_MAX_PENDING)
_nvtx = False


def nvtx(on: bool = True) -> None:
    """Switch NVTX ranges for the scopes of this module on or off."""
    global _nvtx
    _nvtx = on


class scope:
    """A span around a block, and its GPU time as the metric ``gpu <name>_ms``.

    The metric belongs to the frame in which the time is known. Without a GPU this is `vor.scope`.
    """

    def __init__(self, name: str, /, **args: object) -> None:
        """Make the scope, with the arguments of its span."""
        self._name = name
        self._scope = vor.scope(name, **args)
        self._begin: Any = None
        self._range = False

    def __enter__(self) -> scope:
        """Begin the span, and mark the stream."""
        self._scope.__enter__()
        if vor.is_enabled() and _torch.cuda.is_available():
            if _nvtx:
                _torch.cuda.nvtx.range_push(self._name)
                self._range = True
            self._begin = _torch.cuda.Event(enable_timing=True)
            self._begin.record()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        """End the span, and mark the stream."""
        if self._begin is not None:
            end = _torch.cuda.Event(enable_timing=True)
            end.record()
            _pending.append((f"gpu {self._name}_ms", self._begin, end))
            self._begin = None
        if self._range:
            self._range = False
            _torch.cuda.nvtx.range_pop()
        self._scope.__exit__(kind, value, trace)
        collect()


def collect(*, wait: bool = False) -> None:
    """Record the GPU times that are known. With `wait`, wait for the GPU and record all.

    Scopes call this when they end. The times of one name within a frame are added up.
    """
    if wait and _pending:
        _torch.cuda.synchronize()
    known: dict[str, float] = {}
    while _pending and _pending[0][2].query():
        name, begin, end = _pending.popleft()
        known[name] = known.get(name, 0.0) + float(begin.elapsed_time(end))
    for name, elapsed_ms in known.items():
        _add(name, elapsed_ms)


# The sum of each metric in the current frame. A metric of a frame is the last value recorded.
_sums: dict[str, float] = {}


def _add(name: str, elapsed_ms: float) -> None:
    if name not in _sums:
        vor.record_metric_unit(name, "ms")
    _sums[name] = _sums.get(name, 0.0) + elapsed_ms
    vor.record_metric(name, _sums[name])


def frame_mark(name: str | None = None) -> None:
    """Record the known GPU times and the GPU's memory, and mark a frame."""
    collect()
    record_memory()
    vor.frame_mark(name)
    for metric in _sums:
        _sums[metric] = 0.0


def record_memory(device: Any = None) -> None:
    """Record PyTorch's GPU memory: ``gpu_allocated_mb`` in tensors, ``gpu_reserved_mb`` in total.

    Both are in 10^6 bytes. Does nothing without a GPU.
    """
    if not (vor.is_enabled() and _torch.cuda.is_available()):
        return
    for metric, count in (
        ("gpu_allocated_mb", _torch.cuda.memory_allocated(device)),
        ("gpu_reserved_mb", _torch.cuda.memory_reserved(device)),
    ):
        vor.record_metric_unit(metric, "MB")
        vor.record_metric(metric, count / 1e6)
