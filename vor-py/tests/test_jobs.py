"""Real jobs: a training loop with worker processes, and a program by other authors."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from recorded import Run, environment, start

EXAMPLE = Path(__file__).parents[2] / "examples" / "python" / "train_mlp.py"


@pytest.mark.skipif(importlib.util.find_spec("numpy") is None, reason="NumPy is not installed")
@pytest.mark.skipif(not EXAMPLE.exists(), reason="the repository's examples are not here")
def test_a_training_loop(tmp_path: Path) -> None:
    # The first two batches wait for each other, so that each worker makes one. Otherwise, a quick
    # worker could make all of them, and the other would write no capture.
    makes = "    random = np.random.default_rng(seed)\n"
    meets = """
    from pathlib import Path
    Path(f"met{seed}").touch()
    while seed < 2 and not Path(f"met{1 - seed}").exists(): pass
"""
    source = EXAMPLE.read_text()
    assert source.count(makes) == 1
    run = start(
        tmp_path,
        source.replace(makes, meets + makes),
        "60",
        "2",
        VOR_RECORD="run.vor",
        VOR_RECORD_SPANS="1",
    )
    assert run.done.returncode == 0, run.done.stderr
    main = run.capture
    assert (
        main.counts["Network.step"] == 60
        and main.counts["backward"] == 60
        and main.counts["make_batch"] == 0
    )
    assert ("Network.step", "Network.forward") in main.parents()
    frames = main.contents["frames"]
    assert len(frames) == 60 and frames[0]["metrics"]["loss"][1] == "nats"
    assert frames[-1]["metrics"]["loss"][0] < frames[0]["metrics"]["loss"][0]
    assert all("loader_ms" in frame["metrics"] for frame in frames)
    workers = [capture for capture in run.captures if capture.path.name != "run.vor"]
    assert len(workers) == 2
    assert sum(capture.counts["make_batch"] for capture in workers) == 60
    seeds = [span["args"]["seed"] for capture in workers for span in capture.named("make_batch")]
    assert sorted(seeds) == list(range(60))


@pytest.mark.skipif(importlib.util.find_spec("black") is None, reason="black is not installed")
def test_a_program_of_others(tmp_path: Path) -> None:
    source = tmp_path / "source.py"
    shutil.copy(Path(__file__), source)
    outputs = []
    for before in ([], ["-m", "vor", "run", "--quiet", "--out", "run.vor"]):
        command = [sys.executable, *before, "-m", "black", "-q", "-S", "-l", "70", "-"]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment(),
            input=source.read_bytes(),
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        outputs.append((done.stdout, done.stderr))
    assert outputs[0] == outputs[1] and outputs[0][0] != source.read_bytes()
    capture = Run(tmp_path, subprocess.CompletedProcess([], 0)).capture
    assert sum(f"{os.sep}black{os.sep}" in span["file"] for span in capture.spans) > 10
