"""A callback for Lightning: a frame per training batch, its phases as spans, metrics.

The metrics are the wait for data and the values that the trainer logs.

    trainer = lightning.Trainer(callbacks=[VorCallback()])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import vor
from vor.integrations._spans import Spans, Wait, record_numbers

if TYPE_CHECKING:
    _Callback = object
else:
    try:
        from lightning.pytorch.callbacks import Callback as _Callback
    except ModuleNotFoundError:
        try:
            from pytorch_lightning.callbacks import Callback as _Callback
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                "neither lightning nor pytorch_lightning is installed: `pip install lightning`",
                name="lightning",
            ) from None


class VorCallback(_Callback):
    """Marks a frame after each training batch, and records its phases as spans."""

    def __init__(self, *, metric: str = "loader_ms") -> None:
        """Make the callback. `metric` is the name of the wait for a batch, in milliseconds."""
        super().__init__()
        self._spans = Spans()
        self._wait = Wait(metric)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin the wait for the first batch."""
        self._wait.begin()

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Begin the batch, which ends the wait for it."""
        self._wait.record()
        self._spans.begin("training_step")

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
        """Begin the backward pass."""
        self._spans.begin("backward")

    def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
        """End the backward pass."""
        self._spans.end("backward")

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Begin the optimizer's step, which ends with the batch."""
        self._spans.end("optimizer_step")
        self._spans.begin("optimizer_step")

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """End the batch and its frame."""
        self._spans.end("training_step")
        record_numbers(getattr(trainer, "callback_metrics", None))
        vor.frame_mark()
        self._wait.begin()

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Stop waiting for batches."""
        self._wait.stop()

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin a validation."""
        self._spans.begin("validation")

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """End a validation, and begin the wait for the next batch."""
        self._spans.end("validation")
        self._wait.begin_anew()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """End the spans that an exception left open."""
        self._spans.end_all()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """End all open spans."""
        self._spans.end_all()
