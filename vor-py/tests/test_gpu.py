"""Rows of GPUs, which are read from the driver's library, and absent without one.

The library is a test library of vor-recorder, whose cards have known values.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from recorded import record

SOURCE = Path(__file__).parents[2] / "crates" / "vor-fixtures" / "libraries" / "fake_nvml.rs"

# Marks frames for long enough that the cards report every value.
PROGRAM = """
import time
end = time.monotonic() + 3
while time.monotonic() < end:
    vor.frame_mark()
    time.sleep(0.02)
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not sys.platform.startswith("linux") or not SOURCE.exists() or shutil.which("rustc") is None:
        pytest.skip(
            "a driver's library for tests: it is built on Linux, by rustc,"
            " from the repository around the tests"
        )
    folder = tmp_path_factory.mktemp("driver")
    library = folder / "libnvidia-ml.so.1"
    command = ["rustc", "--edition=2024", "--crate-type=cdylib", "-o", str(library), str(SOURCE)]
    subprocess.run(command, check=True)
    return folder


def gpu_rows(folder: Path, **variables: Any) -> dict[str, tuple[float, str]]:
    """Return the last value of each row of a GPU, with its unit."""
    capture = record(folder, PROGRAM, **variables).capture
    rows: dict[str, tuple[float, str]] = {}
    for frame in capture.contents["frames"]:
        rows.update(
            {name: value for name, value in frame["metrics"].items() if name.startswith("gpu")}
        )
    assert any("memory_mb" in frame["metrics"] for frame in capture.contents["frames"]), (
        "the rows of the process exist"
    )
    return rows


def test_a_card_is_rows_of_the_system(tmp_path: Path, driver: Path) -> None:
    rows = gpu_rows(
        tmp_path, LD_LIBRARY_PATH=str(driver), VOR_TEST_NVML="", CUDA_VISIBLE_DEVICES="0"
    )
    known = {
        "gpu_util": (10.0, "%"),
        "gpu_power": (100.0, "W"),
        "gpu_temp": (40.0, "°C"),
        "gpu_mem": (1000.0, "MB"),
        "gpu_clock": (1000.0, "MHz"),
    }
    assert {name: rows.get(name) for name in known} == known


def test_a_card_that_says_nothing_of_a_row_has_none(tmp_path: Path, driver: Path) -> None:
    # Code 3: the query is not supported.
    begin = "error nvmlDeviceGetTemperature 3"
    rows = gpu_rows(
        tmp_path, LD_LIBRARY_PATH=str(driver), VOR_TEST_NVML=begin, CUDA_VISIBLE_DEVICES="0"
    )
    assert "gpu_util" in rows and "gpu_temp" not in rows


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine may have a driver")
def test_without_a_driver_there_are_no_rows(tmp_path: Path) -> None:
    assert gpu_rows(tmp_path) == {}
