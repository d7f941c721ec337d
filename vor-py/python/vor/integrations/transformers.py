"""A callback for the Hugging Face Trainer: a frame per step, the wait for data and logs as metrics.

trainer = transformers.Trainer(..., callbacks=[VorCallback()])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import vor
from vor.integrations._spans import Spans, Wait, record_numbers

if TYPE_CHECKING:
    _Callback = object
else:
    try:
        from transformers import TrainerCallback as _Callback
    except ModuleNotFoundError as _error:
        if _error.name != "transformers":
            raise
        raise ModuleNotFoundError(
            "transformers is not installed: `pip install transformers`", name="transformers"
        ) from None


class VorCallback(_Callback):
    """Marks a frame after each step of the optimizer, and records its batches as spans."""

    def __init__(self, *, metric: str = "loader_ms") -> None:
        """Make the callback. `metric` is the name of the wait before a step, in milliseconds."""
        super().__init__()
        self._spans = Spans()
        self._wait = Wait(metric)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin the wait for the first batch."""
        self._wait.begin()

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin a step, which ends the wait for its first batch."""
        self._wait.record()
        self._spans.begin("step")

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin the optimizer's step."""
        self._spans.begin("optimizer_step")

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the optimizer's step."""
        self._spans.end("optimizer_step")

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the step and its frame."""
        self._spans.end("step")
        vor.frame_mark()
        self._wait.begin()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Stop waiting for batches."""
        self._wait.stop()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Record the logged numbers as metrics."""
        record_numbers(logs)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Exclude an evaluation from the wait for data."""
        self._wait.begin_anew()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End all open spans."""
        self._spans.end_all()
