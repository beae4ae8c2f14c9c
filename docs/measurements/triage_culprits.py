"""Count the culprits of two planted faults, before triage and after: ``triage_culprits.py``.

One fault is in 41 cases of eleven models, the other in three cases of a twelfth. To the run, each
model is a family of its own.
"""

import sys
import tempfile
import time
from pathlib import Path

from triage_plants import CHECKOUT, DECOMPOSED, DECOMPOSITION, SITE, run

ZOO = """
import torch
from torch import nn
from compilegate import Example, model

ONE = "infer-f32-default-static"
THREE = (ONE, "infer-f32-default-auto", "infer-f32-default-dynamic")
FOUR = (*THREE, "train-f32-default-static")


class Residual(nn.Module):
    def __init__(self, *inner):
        super().__init__()
        self.inner = nn.Sequential(*inner)

    def forward(self, x):
        return x + self.inner(x)


def linear():
    return nn.Linear(8, 8)


MODELS = {
    "plain": (FOUR, lambda: (nn.GELU(),)),
    "normed": (FOUR, lambda: (nn.LayerNorm(8), nn.GELU())),
    "residual": (FOUR, lambda: (Residual(linear(), nn.GELU()),)),
    "deep": (FOUR, lambda: (linear(), nn.GELU(), linear(), nn.GELU())),
    "mixed": (FOUR, lambda: (nn.ReLU(), linear(), nn.GELU())),
    "tail": (FOUR, lambda: (nn.Tanh(), linear(), nn.GELU(), nn.LayerNorm(8))),
    "twice": (FOUR, lambda: (Residual(nn.GELU()), Residual(nn.GELU()))),
    "gated": (FOUR, lambda: (nn.Sigmoid(), Residual(linear(), nn.GELU()))),
    "wide": (FOUR, lambda: (nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8))),
    "dropped": (FOUR, lambda: (nn.Dropout(0.0), nn.GELU())),
    "single": ((ONE,), lambda: (nn.GELU(), linear())),
    "softplus": (THREE, lambda: (nn.Softplus(),)),
}


def register(name, settings, body):
    @model(name, settings=settings)
    def build():
        net = nn.Sequential(linear(), *body(), nn.Linear(8, 3))
        return Example(net, inputs=lambda: (torch.randn(5, 8),))


for name, (settings, body) in MODELS.items():
    register(name, settings, body)
"""

#: Names of the models, and the operators whose decompositions are one per cent too large.
MODELS = (
    *("plain", "normed", "residual", "deep", "mixed", "tail", "twice", "gated", "wide", "dropped"),
    *("single", "softplus"),
)
OPERATORS = ("gelu.default", "softplus.default")


def site() -> str:
    """Return a ``sitecustomize`` that plants both faults."""
    plants = [
        DECOMPOSITION.format(operator=operator, result=0).replace("plant", f"plant_{number}", 1)
        for number, operator in enumerate(OPERATORS)
    ]
    calls = "".join(f"    plant_{number}(module)\n" for number in range(len(OPERATORS)))
    code = f"{''.join(plants)}\n\ndef plant(module):\n{calls}"
    return SITE.format(code=code, module="torch._inductor.decomposition")


def main() -> None:
    """Print what summary, page and JUnit say before triage, and after it."""
    home = Path(*sys.argv[1:2] or [tempfile.mkdtemp(prefix="triage-culprits-")]).resolve()
    home.mkdir(parents=True, exist_ok=True)
    (home / "sitecustomize.py").write_text(site(), encoding="utf-8")
    (home / "zoo.py").write_text(ZOO, encoding="utf-8")
    suites = [str(CHECKOUT / "suites" / f"test_{one}.py") for one in ("forward", "gradients")]
    runs = ["-o", f"runs_dir={home / 'runs'}"]
    models = [word for name in MODELS for word in ("--models", name)]
    pytest, markdown = ["pytest", "-q", "-m", "cpu", *runs], ["compilegate", "markdown", "red"]
    words = [*pytest, "--tier", "full", "--backend", DECOMPOSED, "--save", "red", *suites, *models]
    began = time.monotonic()
    run(home, "session.log", *words, "--zoo", str(home / "zoo.py"), "--junitxml", "before.xml")
    observed = time.monotonic()
    run(home, "triage.log", "compilegate", "triage", "red", "--runs", "runs", "--out", "reports")
    triaged = time.monotonic()
    known = ["--known", str(home / "reports" / "culprits.toml")]
    run(home, "after.log", *pytest, "--replay", "red", *known, "--junitxml", "after.xml", *suites)
    for name, more in (("before.md", []), ("after.md", known)):
        run(home, name, *markdown, "--runs", "runs", *more)
    print(f"session {observed - began:.0f} s, triage {triaged - observed:.0f} s")
    for path in sorted(one for one in home.iterdir() if one.is_file()):
        text = path.read_text(encoding="utf-8") if path.suffix != ".py" else ""
        for line in {line.strip()[:160] for line in text.splitlines() if "culprits in" in line}:
            at = line.find("culprits in")
            print(f"{path.name}: …{line[max(at - 40, 0) : at + 120]}")


if __name__ == "__main__":
    main()
