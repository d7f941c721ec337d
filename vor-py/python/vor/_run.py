"""`python -m vor run`: records every call of an unchanged program.

The program runs as `__main__`, with its own arguments and path, as without vor. Recording ends with
the interpreter, after the program's threads and its own exit handlers. Interpreters that the
program starts record too, because `_child/sitecustomize.py` is first in `PYTHONPATH`. Each process
writes a capture of its own, `run.<pid>.vor` beside `run.vor`. Forked children continue to record.
Frames end at an interval until the program marks one itself. At its end the first process prints a
summary of its capture on stderr.
"""

from __future__ import annotations

import argparse
import atexit
import importlib.util
import json
import os
import signal
import sys
import time
import types
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import NoReturn

from vor import _core, _locks, _monitor, _recording, _summary

_VARIABLE = "VOR_PYTHON_RUN"
# `0` has the effect of `--quiet`.
_SUMMARY = "VOR_RUN_SUMMARY"
# `1` has the effect of `--locks`.
_LOCKS = "VOR_RUN_LOCKS"
_HERE = os.path.dirname(os.path.abspath(__file__))
_CHILD = os.path.join(_HERE, "_child")
# Helpers of `multiprocessing` that run no code of the program.
_HELPERS = ("multiprocessing.resource_tracker",)
# Captures that are older than this belong to other runs.
_STARTED = time.time()


@dataclass
class Options:
    """Selects the calls to record, and the file to write."""

    out: str = "run.vor"
    include: list[str] = field(default_factory=list)
    exclude: list[str] = field(default_factory=list)
    min_us: float = 0.0
    c_calls: bool = False
    # The interval at which frames end until the program marks one. 0 means never.
    frame_ms: float = 100.0
    quiet: bool = False
    # Whether the waits for locks are recorded.
    locks: bool = False
    # Whether the waits for the interpreter's lock are measured.
    gil_wait: bool = False
    # The process whose capture is `out`.
    pid: int = 0


def main(arguments: Sequence[str]) -> NoReturn:
    """Run the program that the arguments of `python -m vor run` name, and exit like it."""
    parser = argparse.ArgumentParser(
        prog="python -m vor run",
        usage="%(prog)s [--out run.vor] [--include PLACE] [--exclude PLACE] [--min-us N]"
        " [--c-calls] [--locks] [--gil-wait] [--frame-ms N] [--quiet]"
        " (script.py | -m MODULE) ...",
        description="Run a program and record every call of Python.",
        epilog="A PLACE is a module or package, a file or a folder;"
        " the options may be given more than once.",
    )
    parser.add_argument("--out", default="run.vor", metavar="FILE", help="the capture (run.vor)")
    parser.add_argument(
        "--include", action="append", default=[], metavar="PLACE", help="record only code in PLACE"
    )
    parser.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="PLACE",
        help="do not record code in PLACE",
    )
    parser.add_argument(
        "--min-us", type=float, default=0.0, metavar="N", help="omit calls shorter than N us"
    )
    parser.add_argument(
        "--c-calls",
        action="store_true",
        help="also record calls of functions that are not written in Python",
    )
    parser.add_argument(
        "--locks",
        action="store_true",
        help="also record who waits for which lock of `threading`, see `vor locks`",
    )
    parser.add_argument(
        "--gil-wait",
        action="store_true",
        help="also measure the waits for the interpreter's lock: the metric gil_wait_ms",
    )
    parser.add_argument(
        "--frame-ms",
        type=float,
        default=Options.frame_ms,
        metavar="N",
        help="end a frame every N ms until the program marks one itself (100);"
        " 0: the whole run is one frame",
    )
    parser.add_argument("--quiet", action="store_true", help="print no summary at the end")
    parser.add_argument(
        "-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE", help="run a module"
    )
    parser.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    target: list[str] = given.module if given.module is not None else given.program
    if not target:
        parser.error("a script or -m MODULE is required")
    if not 0.0 <= given.min_us < 1e12:
        parser.error(f"--min-us: expected a number of at least 0, found {given.min_us}")
    if not (given.frame_ms == 0.0 or 1.0 <= given.frame_ms < 1e9):
        parser.error(f"--frame-ms: expected 0 or a number of at least 1, found {given.frame_ms}")
    sys.argv = target
    try:
        program = _module(target[0]) if given.module is not None else _script(target[0])
        options = Options(
            out=os.path.abspath(given.out),
            include=[place for name in given.include for place in _places("--include", name)],
            exclude=[place for name in given.exclude for place in _places("--exclude", name)],
            min_us=given.min_us,
            c_calls=given.c_calls,
            frame_ms=given.frame_ms,
            quiet=given.quiet or not _flag(_SUMMARY, True),
            locks=given.locks or _flag(_LOCKS, False),
            gil_wait=given.gil_wait,
            pid=os.getpid(),
        )
    except _BadInput as error:
        parser.exit(2, f"vor: {error}\n")
    _lead_children(options)
    _begin(options)
    _execute(*program)


def _flag(variable: str, default: bool) -> bool:
    """Return the value of a variable that is 0 or 1."""
    value = os.environ.get(variable) or str(int(default))
    if value not in ("0", "1"):
        print(f"vor: {variable}: `{value}` is neither 0 nor 1; it is ignored", file=sys.stderr)
        return default
    return value == "1"


class _BadInput(Exception):
    """A script, module or place on the command line does not exist."""


def _script(path: str) -> tuple[types.CodeType, types.ModuleType]:
    """Return a script's code, and the module that it runs as."""
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        raise _BadInput(f"{path}: {error.strerror}") from None
    module = types.ModuleType("__main__")
    module.__file__ = os.path.abspath(path)
    module.__dict__.update(__builtins__=__builtins__, __cached__=None)
    sys.path[0] = os.path.dirname(os.path.realpath(path))
    return _compile(source, module.__file__), module


def _compile(source: bytes, path: str) -> types.CodeType:
    try:
        return compile(source, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        # Reported as by Python itself, without the lines of vor.
        sys.excepthook(type(error), error.with_traceback(None), None)
        sys.exit(1)


def _module(name: str) -> tuple[types.CodeType, types.ModuleType]:
    """Return a module's code, or that of a package's `__main__`, and the module that it runs as."""
    sys.path[0] = os.getcwd()
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, ValueError) as error:
        raise _BadInput(f"-m {name}: {error}") from None
    get_code = getattr(spec.loader, "get_code", None) if spec is not None else None
    code = get_code(spec.name) if spec is not None and get_code is not None else None
    if spec is None or code is None:
        raise _BadInput(f"-m {name}: no module of this name can be run")
    module = types.ModuleType("__main__")
    module.__spec__ = spec
    module.__package__ = spec.parent
    module.__loader__ = spec.loader
    module.__file__ = spec.origin
    module.__dict__.update(__builtins__=__builtins__, __cached__=spec.cached)
    sys.argv[0] = spec.origin or name
    return code, module


def _places(option: str, name: str) -> list[str]:
    """Return the paths of a module, a file or a folder, as code objects name them."""
    if name.startswith("<"):
        return [name]
    if os.path.exists(name) or os.sep in name:
        return [os.path.abspath(name)]
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise _BadInput(f"{option}: no module, file or folder is called {name}")
    if spec.submodule_search_locations is not None:
        return list(spec.submodule_search_locations)
    if spec.has_location and spec.origin is not None:
        return [spec.origin]
    return [f"<{spec.origin} {name}>"]


def _lead_children(options: Options) -> None:
    """Set the environment so that processes that this one starts record too."""
    os.environ[_VARIABLE] = json.dumps(asdict(options))
    path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = _CHILD + (os.pathsep + path if path else "")


def join() -> None:
    """Record this process, which a recorded one started."""
    if any(helper in argument for argument in sys.orig_argv for helper in _HELPERS):
        return
    try:
        options = Options(**json.loads(os.environ[_VARIABLE]))
    except (KeyError, ValueError, TypeError) as error:
        print(
            f"vor: {_VARIABLE}: not a value that `python -m vor run` sets: {error!r}",
            file=sys.stderr,
        )
        return
    stem, extension = os.path.splitext(options.out)
    options.out = f"{stem}.{os.getpid()}{extension}"
    _begin(options)


def _begin(options: Options) -> None:
    _recording.enable(capture=options.out)
    # Registered before the program's handlers, so it is called after them.
    atexit.register(_end, options)
    _core.trace(True, options.include, [*options.exclude, _HERE], options.min_us, options.c_calls)
    _monitor.trace(True, options.c_calls)
    _mark_frames(options)
    if options.locks:
        _locks.patch_threading()
    if options.gil_wait:
        try:
            _locks.record_gil_wait()
        except RuntimeError as error:
            print(f"vor: {error}", file=sys.stderr)
    if hasattr(os, "register_at_fork"):
        # The thread that marks frames does not exist in the child.
        os.register_at_fork(after_in_child=lambda: _resume_marking(options))


def _mark_frames(options: Options) -> None:
    if options.frame_ms > 0.0:
        _core.mark_frames_every(options.frame_ms)


def _resume_marking(options: Options) -> None:
    if _core.stop_marking_frames():
        _mark_frames(options)


def _end(options: Options) -> None:
    _monitor.trace(False, options.c_calls)
    _core.trace(False, [], [], 0.0, False)
    if _core.stop_marking_frames():
        # End the frame of the time since the last mark.
        _core.frame_mark()
    _recording.disable()
    _recording.close_capture()
    if os.getpid() == options.pid and not options.quiet:
        _print(_report(options.out))


def _report(out: str) -> str:
    try:
        return _summary.text(out) + _report_children(out)
    except OSError as error:
        return f"vor: {error}\n"


def _print(text: str) -> None:
    """Write to the stderr of the process, whatever the program made of `sys.stderr`."""
    try:
        if sys.__stderr__ is not None:
            print(text, end="", file=sys.__stderr__, flush=True)
    except (OSError, ValueError):
        # It is closed.
        pass


def _report_children(out: str) -> str:
    stem, extension = os.path.splitext(out)
    folder, prefix = os.path.split(stem + ".")
    others = [
        entry.name
        for entry in os.scandir(folder)
        if entry.name.startswith(prefix)
        and entry.name[len(prefix) : len(entry.name) - len(extension)].replace(".", "").isdigit()
        and entry.name.endswith(extension)
        and entry.stat().st_mtime >= _STARTED
    ]
    if not others:
        return ""
    return (
        f"vor: {len(others)} more processes wrote captures beside {out}; "
        f"`vor merge {stem}{extension} {stem}.*{extension} -o all.pftrace` puts them together\n"
    )


def _execute(code: types.CodeType, module: types.ModuleType) -> NoReturn:
    """Run the program, and exit as Python would exit."""
    sys.modules["__main__"] = module
    try:
        exec(code, module.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        # The first entry of the traceback is this function.
        trace = error.__traceback__
        error = error.with_traceback(trace.tb_next if trace is not None else None)
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1)
    sys.exit(0)
