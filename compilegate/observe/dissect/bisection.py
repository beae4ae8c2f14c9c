"""Bisects the compiler on a script, with PyTorch's own ``CompilerBisector``.

``python -m compilegate.observe.dissect.bisection SCRIPT BACKEND DEVICE SECONDS [OPTION]`` runs the
script again and again, each time in a forked child, so that a crash ends one child, and a hang ends
after SECONDS. Before all else it tries OPTION of Inductor, if there is one. The last line on stdout
is JSON. The caller names a folder of its own in
``TORCHINDUCTOR_CACHE_DIR``: the bisector keeps its state there, and deletes it.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from compilegate.output.streams import clean_streams

#: Options of Inductor that leave out one step, or do it in another way.
_OPTIONS: tuple[dict[str, Any], ...] = (
    {"pattern_matcher": False},
    {"max_fusion_size": 1},
    {"emulate_precision_casts": True},
    {"cpp.simdlen": 1},
)
#: What the names of passes have that fold constants in the joint graph, and the option against it.
_FOLDS, _OF_PASSES = "constant_fold", ({"joint_graph_constant_folding": False},)


@clean_streams()
def main() -> int:
    """Bisect, then try options of Inductor; print what is found."""
    import torch._dynamo
    import torch._inductor.compile_fx  # noqa: F401 (once, before it forks)
    from torch._inductor.compiler_bisector import CompilerBisector

    script, backend, device, hangs_s = *sys.argv[1:4], float(sys.argv[4])
    first = [each for each in _OPTIONS if {*each} & {*sys.argv[5:]}]
    helps = [each for each in first if _helps(each, script, hangs_s, device)]
    found: dict[str, Any] = {"helps": helps}
    print(json.dumps(found), flush=True)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            result = CompilerBisector.do_bisect(lambda: works(script, hangs_s))
        if result is None:
            found["why"] = "no backend shows it in the bisection, which uses no compile caches"
        else:
            found |= {
                "backend": result.backend,
                "subsystem": result.subsystem or "",
                "number": result.bisect_number,
                "what": result.debug_info or "",
            }
    except Exception as error:
        found["why"] = f"{type(error).__name__}: {error}".splitlines()[0]
    print(json.dumps(found), flush=True)
    if str(found.get("subsystem")).endswith("passes"):
        found["patterns"] = _patterns(script, hangs_s, str(found["what"]))
        print(json.dumps(found), flush=True)
    options_of_passes = _OF_PASSES if _FOLDS in str(found.get("what")) else ()
    for options in (*_OPTIONS, *options_of_passes) if backend == "inductor" else ():
        if options not in first and _helps(options, script, hangs_s, device):
            helps.append(options)
            print(json.dumps(found), flush=True)  # the time may be over before the last
    return 0


def _helps(options: dict[str, Any], script: str, hangs_s: float, device: str) -> bool:
    """Whether a script passes with options of Inductor."""
    import torch._inductor.config as inductor

    name = next(iter(options))
    if not _has(inductor, name) or (device == "cuda" and name.startswith("cpp.")):
        return False
    with inductor.patch(options):
        return works(script, hangs_s)


def _patterns(script: str, hangs_s: float, named: str) -> list[dict[str, Any]]:
    """Return the patterns that a pass replaces in a script."""
    from compilegate.observe.dissect import patterns

    with tempfile.NamedTemporaryFile() as told:
        works(script, hangs_s, lambda: patterns.follow(named, Path(told.name)))
        text = Path(told.name).read_text(encoding="utf-8")
    return json.loads(text) if text else []


def _has(config: Any, name: str) -> bool:
    for part in name.split("."):
        if not hasattr(config, part):
            return False
        config = getattr(config, part)
    return True


def works(script: str, hangs_s: float, before: Callable[[], None] = lambda: None) -> bool:
    """Whether a script exits with status 0 in a forked child, which calls a function before.

    The bisector of torch before 2.13 keeps the names of what it applied in a dict of its process;
    later ones keep them in files. What the child adds to the dict is added here, too.
    """
    from torch._inductor import compiler_bisector

    names: dict[int, str] = getattr(compiler_bisector, "call_counter_debug_info", {})
    with tempfile.NamedTemporaryFile() as told:
        child = os.fork()
        if child == 0:
            before()
            status = _run(script)
            Path(told.name).write_text(json.dumps([*names.items()]), encoding="utf-8")
            os._exit(status)
        status = _ended(child, hangs_s)
        with contextlib.suppress(ValueError):  # it was killed before it wrote
            names.update(json.loads(Path(told.name).read_text(encoding="utf-8")))
    return status == 0


def _ended(child: int, hangs_s: float) -> int:
    """Wait for a child and return its status; kill it after some seconds."""
    until = time.monotonic() + hangs_s
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def _run(script: str) -> int:
    sys.argv = [script]
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as error:
            return int(bool(error.code))
        except BaseException:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
