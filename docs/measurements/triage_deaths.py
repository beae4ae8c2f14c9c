"""Triage two crashes, two hangs and an exception of the compiler: ``triage_deaths.py [DEATH…]``.

For each, a ``sitecustomize`` changes what PyTorch compiles, and one function in the middle of a
model of four layers shows it. It prints one row of a Markdown table a death. The last columns are
how ``repro.py`` ends in a fresh interpreter that has the fault, without the stage, and without the
fault.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from triage_plants import DECOMPOSED, INDUCTOR, SITE, STAGES, judged, print_table, run

ZOO = """
import torch
from torch import nn

from compilegate import Example, model


class Middle(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@model("dies")
def dies():
    layers = nn.Linear(8, 16), nn.ReLU(), Middle(torch.{function}), nn.Linear(16, 4)
    return Example(nn.Sequential(*layers), inputs=lambda: (torch.rand(3, 8),))
"""

#: Another decomposition, which acts when it is compiled.
COMPILING = """
def plant(module):
    import os, signal, time
    import torch

    def act(x):
        {action}

    module.decompositions[torch.ops.aten.{function}.default] = act
"""

#: Another decomposition, which calls an operator that acts when compiled code runs.
RUNNING = """
def plant(module):
    import os, signal, time
    import torch

    @torch.library.custom_op("planted::act", mutates_args=())
    def act(x: torch.Tensor) -> torch.Tensor:
        {action}

    act.register_fake(torch.empty_like)
    module.decompositions[torch.ops.aten.{function}.default] = lambda x: torch.ops.planted.act(x)
"""

LOWERING = """
def plant(module):
    import torch

    def refuse(x):
        raise RuntimeError("planted: no loops for this operator")

    module.lowerings[torch.ops.aten.{function}.default] = refuse
"""

KILL, SLEEP = "os.kill(os.getpid(), signal.SIGSEGV)", "time.sleep(10_000)"


@dataclass(frozen=True)
class Death:
    """A fault in PyTorch that ends or stops the process, or raises.

    Attributes:
        function: The function of ``torch`` that shows it.
        code: The change: a function ``plant(module)``.
        action: What the change does.
        module: The module of PyTorch that is changed once it is imported.
        backend: The first backend that shows it.
        status: How ``repro.py`` ends.
    """

    function: str
    code: str
    action: str = ""
    module: str = "torch._inductor.decomposition"
    backend: str = DECOMPOSED
    status: int = 1


DEATHS = {
    "crash-compiling": Death("sinh", COMPILING, KILL, status=-11),
    "crash-running": Death("asinh", RUNNING, KILL, status=-11),
    "hang-compiling": Death("cosh", COMPILING, SLEEP),
    "hang-running": Death("acosh", RUNNING, SLEEP),
    "raises": Death("atan", LOWERING, module="torch._inductor.lowering", backend=INDUCTOR),
}


def rows(names: Sequence[str], minutes: float, folder: Path) -> Iterator[str]:
    """Yield a row for each death: what triage found, and how long that took."""
    for name in names:
        death, home = DEATHS[name], folder / name
        home.mkdir(parents=True)
        plant = death.code.format(function=death.function, action=death.action)
        site = SITE.format(module=death.module, code=plant)
        (home / "sitecustomize.py").write_text(site, encoding="utf-8")
        (home / "zoo.py").write_text(ZOO.format(function=death.function), encoding="utf-8")
        session = f"pytest -q -m cpu --backend {death.backend} --case-timeout 30 --save red".split()
        session += ["--models", "dies", "--zoo", str(home / "zoo.py")]
        session += [
            "-o",
            f"runs_dir={home / 'runs'}",
            "--pyargs",
            "compilegate.suites.test_forward",
        ]
        run(home, "session.log", *session)
        began = time.monotonic()
        words = ("red", "--runs", "runs", "--out", "reports", "--minutes", f"{minutes:g}")
        run(home, "triage.log", "compilegate", "triage", *words)
        spent = time.monotonic() - began
        yield f"| {name} | {' | '.join(_found(death, home))} | {spent:.0f} |"


def _found(death: Death, home: Path) -> Iterator[str]:
    """Yield what the report says, each with whether it is right, and how the script ends."""
    (report,) = (home / "reports").glob("*/report.md")
    text, script = report.read_text(encoding="utf-8"), report.with_name("repro.py")
    stage = re.search(r"\*\*Stage:\*\* ([^:]+):", text)
    yield judged(stage[1] if stage else "", STAGES[death.backend])
    place = re.search(r"\*\*Submodule:\*\* (`[^`]*`) \(`(\w+)`\)", text)
    yield judged(f"{place[1]}, {place[2]}" if place else "", r"`2`, Middle$")
    operator = re.search(r"\*\*Operator:\*\* `([^`]+)`", text)
    yield judged(operator[1] if operator else "", rf"^{death.function}$")
    bisected = re.search(r"```text\n(.*)\n```", text.partition("## Bisection")[2])
    yield judged(bisected[1] if bisected else "", death.function)
    below = re.search(r"`python repro.py ([^`]+)`, without", text)
    ended = _ended(script, home), _ended(script, home, *(below[1].split() if below else ["off"]))
    yield f"{len(script.read_text(encoding='utf-8').splitlines())} lines"
    yield f"{ended[0]}, {ended[1]}: {'right' if ended == (death.status, 0) else 'WRONG'}"
    yield str(_ended(script, home, broken=False))


def _ended(script: Path, home: Path, *words: str, broken: bool = True) -> int:
    """Return how a script ends in a fresh interpreter, which knows nothing of the project."""
    environment = {name: it for name, it in os.environ.items() if name != "PYTHONPATH"}
    paths = {"PYTHONPATH": str(home)} if broken else {}
    command = [sys.executable, str(script), *words]
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(home / "cache")}
    done = subprocess.run(
        command, cwd="/", env={**environment, **paths, **cache}, capture_output=True, check=False
    )
    return done.returncode


if __name__ == "__main__":
    found = ("stage", "submodule", "operator", "bisection", "script", "ends", "sound", "seconds")
    print_table(rows, DEATHS, ("death", *found))
