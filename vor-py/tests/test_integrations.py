"""`vor.steps`, and the callbacks, each with a small imitation of its framework.

An imitation makes the calls of the framework, in the same order.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from recorded import record, start

import vor


def read(folder: Path, program: str) -> vor.Capture:
    return vor.read(record(folder, program).capture.path)


def rows(table: vor.Table) -> list[dict[str, Any]]:
    return [table[at] for at in range(len(table))]


def metric(capture: vor.Capture, name: str) -> list[float]:
    return [row["value"] for row in rows(capture.metrics) if row["name"] == name]


def test_steps_mark_frames_and_time_the_wait(tmp_path: Path) -> None:
    capture = read(
        tmp_path,
        """
        import time
        def loader():
            for batch in range(4):
                time.sleep(0.02)
                yield batch
        seen = []
        for batch in vor.steps(loader()):
            with vor.scope("train", batch=batch):
                seen.append(batch)
        assert seen == [0, 1, 2, 3]
        """,
    )
    assert len(capture) == 4
    waits = metric(capture, "loader_ms")
    assert len(waits) == 4 and all(wait >= 20.0 for wait in waits)
    for index, frame in enumerate(capture):
        assert sorted(frame.spans["name"]) == ["loader", "train"]
        assert [row["args"] for row in rows(frame.spans) if row["name"] == "train"] == [
            {"batch": str(index)}
        ]
        assert frame.dur_ns >= 20_000_000 or index == 0
    assert {row["unit"] for row in rows(capture.metrics) if row["name"] == "loader_ms"} == {"ms"}


def test_steps_go_on_as_the_loader_does(tmp_path: Path) -> None:
    capture = read(
        tmp_path,
        """
        def failing():
            yield 1
            raise KeyError("mine")
        try:
            for batch in vor.steps(failing(), metric=None):
                pass
        except KeyError as error:
            assert error.args == ("mine",)
        for batch in vor.steps([1, 2, 3], name="inner"):
            if batch == 2:
                break
        assert list(vor.steps([])) == []
        for wrong in (dict(metric=3), dict(name=3)):
            try:
                vor.steps([1], **wrong)
            except TypeError as error:
                assert str(error).startswith("steps: ") and "found int" in str(error)
            else:
                raise AssertionError(wrong)
        try:
            vor.steps(3)
        except TypeError:
            pass
        else:
            raise AssertionError
        """,
    )
    # The failed loop had one complete step. Frames of other sets are not included.
    assert len(capture) == 1
    assert metric(capture, "loader_ms") == []


LIGHTNING = """
    import sys, types
    for name in ("lightning", "lightning.pytorch", "lightning.pytorch.callbacks"):
        sys.modules[name] = types.ModuleType(name)
    class Callback: pass
    sys.modules["lightning.pytorch.callbacks"].Callback = Callback
    from vor.integrations.lightning import VorCallback
    callback = VorCallback()
    assert isinstance(callback, Callback)
    class Loss:
        def __init__(self, value): self.value = value
        def __float__(self): return self.value
    trainer, module = types.SimpleNamespace(callback_metrics={}), object()
"""


def test_lightning(tmp_path: Path) -> None:
    program = textwrap.dedent(LIGHTNING) + textwrap.dedent("""
    for epoch in range(2):
        callback.on_train_epoch_start(trainer, module)
        for index in range(3):
            callback.on_train_batch_start(trainer, module, None, index)
            callback.on_before_backward(trainer, module, Loss(1.0))
            callback.on_after_backward(trainer, module)
            callback.on_before_optimizer_step(trainer, module, None)
            trainer.callback_metrics = {"loss": Loss(1.0 / (1 + index)), "note": "no number"}
            callback.on_train_batch_end(trainer, module, None, None, index)
        callback.on_validation_start(trainer, module)
        callback.on_validation_end(trainer, module)
        callback.on_train_epoch_end(trainer, module)
    callback.on_train_batch_start(trainer, module, None, 0)
    callback.on_exception(trainer, module, KeyboardInterrupt())
    callback.on_train_end(trainer, module)
    """)
    capture = read(tmp_path, program)
    assert len(capture) == 6
    for frame in capture[:3]:
        spans = {row["name"]: row["depth"] for row in rows(frame.spans)}
        assert spans == {"training_step": 0, "backward": 1, "optimizer_step": 1}
    assert metric(capture, "loss") == [1.0, 0.5, 1.0 / 3] * 2
    assert len(metric(capture, "loader_ms")) == 6
    names = capture.spans["name"].to_list()
    assert (names.count("validation"), names.count("training_step")) == (2, 7)


def test_transformers(tmp_path: Path) -> None:
    program = """
        import sys, types
        transformers = sys.modules["transformers"] = types.ModuleType("transformers")
        class TrainerCallback: pass
        transformers.TrainerCallback = TrainerCallback
        from vor.integrations.transformers import VorCallback
        callback = VorCallback(metric="data_ms")
        assert isinstance(callback, TrainerCallback)
        a = (None, None, None)
        callback.on_epoch_begin(*a, model=None)
        for step in range(4):
            callback.on_step_begin(*a, model=None)
            callback.on_pre_optimizer_step(*a)
            callback.on_optimizer_step(*a)
            callback.on_log(*a, logs={"loss": 2.0 - step, "epoch": 1, "text": "x"})
            callback.on_step_end(*a)
            callback.on_evaluate(*a, metrics={})
        callback.on_epoch_end(*a)
        callback.on_train_end(*a)
        """
    capture = read(tmp_path, program)
    assert len(capture) == 4
    assert metric(capture, "loss") == [2.0, 1.0, 0.0, -1.0]
    assert len(metric(capture, "data_ms")) == 4
    assert capture.spans["name"].to_list() == ["optimizer_step", "step"] * 4


TORCH = """
    import sys, types
    torch = sys.modules["torch"] = types.ModuleType("torch")
    cuda = torch.cuda = types.SimpleNamespace()
    now, done, ranges = [0.0], [0.0], []
    class Event:
        def __init__(self, enable_timing): assert enable_timing
        def record(self):
            now[0] += 5.0
            self.at = now[0]
        def query(self): return self.at <= done[0]
        def elapsed_time(self, end): return end.at - self.at
    def synchronize(): done[0] = now[0]
    cuda.Event, cuda.synchronize = Event, synchronize
    cuda.is_available = lambda: True
    cuda.memory_allocated = lambda device: 2_000_000
    cuda.memory_reserved = lambda device: 8_000_000
    cuda.nvtx = types.SimpleNamespace(
        range_push=ranges.append, range_pop=lambda: ranges.append(None)
    )
    from vor.integrations import torch as vor_torch
"""


def test_torch(tmp_path: Path) -> None:
    program = textwrap.dedent(TORCH) + textwrap.dedent("""
    with vor_torch.scope("forward", layer=1):
        pass
    vor_torch.frame_mark()          # the GPU is not done: its time is not in this frame
    done[0] = now[0]
    with vor_torch.scope("forward"):
        done[0] = now[0] + 100
    vor_torch.frame_mark()          # both times are known now, and are added
    vor_torch.nvtx()
    with vor_torch.scope("backward"):
        with vor_torch.scope("inner"):
            pass
    assert ranges == ["backward", "inner", None, None], ranges
    vor_torch.collect(wait=True)
    vor_torch.frame_mark()
    cuda.is_available = lambda: False
    with vor_torch.scope("on the processor"):
        pass
    vor_torch.frame_mark()
    """)
    capture = read(tmp_path, program)
    metrics = [frame.metrics for frame in capture]
    assert [frame.get("gpu forward_ms") for frame in metrics] == [None, 10.0, None, None]
    assert [frame.get("gpu inner_ms") for frame in metrics] == [None, None, 5.0, None]
    assert [frame.get("gpu backward_ms") for frame in metrics] == [None, None, 15.0, None]
    assert [frame.get("gpu_allocated_mb") for frame in metrics] == [2.0, 2.0, 2.0, None]
    assert [frame.get("gpu_reserved_mb") for frame in metrics] == [8.0, 8.0, 8.0, None]
    assert capture.spans["name"].to_list() == [
        "forward",
        "forward",
        "inner",
        "backward",
        "on the processor",
    ]
    assert capture.spans[0]["args"] == {"layer": "1"}


def test_a_framework_that_is_missing_is_named(tmp_path: Path) -> None:
    for module, package in (
        ("lightning", "lightning"),
        ("transformers", "transformers"),
        ("torch", "torch"),
    ):
        program = f"""
            import sys
            for name in ("lightning", "pytorch_lightning", "transformers", "torch"):
                sys.modules[name] = None
            try:
                import vor.integrations.{module}
            except ModuleNotFoundError as error:
                assert error.name == {package!r} and "pip install {package}" in str(error), error
            else:
                raise AssertionError
            import vor.integrations
            """
        done = start(tmp_path, program).done
        assert done.returncode == 0, done.stderr


def test_steps_work_without_recording() -> None:
    assert not vor.is_enabled()
    assert list(vor.steps(range(1000))) == list(range(1000))
