"""Time PyTorch's own harness and compilegate on the same models: ``harness.py --benchmarks DIR``.

DIR is the folder ``benchmarks`` of PyTorch's sources, of the installed version or one near it. The
harness, ``dynamo/timm_models.py``, takes the modules and the inputs from compilegate's zoo, so
that it needs no network. It needs pandas, psutil, SciPy, PyYAML, tqdm and timm. Each process starts
with empty caches. Whatever did not really compile ends the script with status 1.
"""

import argparse
import csv
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from compilegate.runs import files

CHECKOUT = Path(__file__).resolve().parents[2]
#: The suites of what the harness judges or reports.
SUITES = ("forward", "graph_breaks", "speedup", "compile_time", "memory")
#: The harness imports this file by its path and calls the class.
MODEL = """
import torch
from compilegate.zoo import registry

MODEL = registry.load()["{name}"]


class {name}(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.example = [MODEL.example("{device}")]
        self.net = self.example[0].module
        self.eval()

    def forward(self, *args):
        return self.net(*args)

    def get_example_inputs(self):
        sizes = MODEL.sizes("{device}")
        return self.example.pop().inputs(**{{name: all[0] for name, all in sizes.items()}})
"""
#: Reads libraries and compilers from a disk that may be cold, so that neither side pays for that.
WARM_UP = """
import torch, torchvision, timm, pandas, scipy.stats

images = torch.ones(2, 3, 8, 8, device="{device}")
torch.compile(torch.nn.Conv2d(3, 8, 3, device="{device}"))(images)
"""


class NotMeasuredError(Exception):
    """A side did not do the work that its seconds would stand for."""


@dataclass
class Session:
    """What runs, where it writes, and until when.

    Attributes:
        benchmarks: The folder of PyTorch's benchmarks.
        models: Names of models in compilegate's zoo.
        device: ``cpu`` or ``cuda``.
        folder: An empty folder for caches, logs and results.
        end: The time at which everything stops, in seconds of the monotonic clock.
        rows: What was measured so far: what ran, seconds, what it judged.
    """

    benchmarks: Path
    models: Sequence[str]
    device: str
    folder: Path
    end: float
    rows: list[tuple[str, float, str]] = field(default_factory=list)

    def run(self, name: str, command: Sequence[str], allowed: Sequence[int] = (0,)) -> float:
        """Run a command with empty caches and return its seconds, start included.

        Raises:
            NotMeasuredError: It ended with another status than allowed, or at the end of the time.
        """
        log, caches = self.folder / f"{name}.log", self.folder / f"{name}-caches"
        started = time.monotonic()
        with log.open("w") as out:
            process = subprocess.Popen(
                command,
                cwd=CHECKOUT,
                env=self._environment(caches),
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                status = process.wait(max(self.end - started, 0))
            except subprocess.TimeoutExpired:
                raise NotMeasuredError(f"{name}: the time is over") from None
            finally:
                _stop(process)
        taken = time.monotonic() - started
        if status not in allowed:
            raise NotMeasuredError(f"{name} ended with status {status}:\n{_last_lines(log)}")
        return taken

    def _environment(self, caches: Path) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(CHECKOUT), os.environ.get("PYTHONPATH", "")]),
            "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
            "TRITON_CACHE_DIR": str(caches / "triton"),
            "HF_HUB_OFFLINE": "1",
        }

    def harness(self, model: str, what: str) -> None:
        """Measure PyTorch's harness: ``accuracy`` or ``performance`` of one model."""
        name = f"{model}-{what}"
        source, results = self.folder / f"{model}.py", self.folder / name
        source.write_text(MODEL.format(name=model, device=self.device))
        results.mkdir()
        taken = self.run(
            name,
            [
                *(sys.executable, str(self.benchmarks / "dynamo" / "timm_models.py")),
                *(f"--{what}", "--inference", "--float32", "--backend", "inductor"),
                *("--disable-cudagraphs", "--devices", self.device),
                *("--output-directory", str(results), "--only", f"path:{source},class:{model}"),
            ],
        )
        kind = "accuracy" if what == "accuracy" else "speedup"
        with (results / f"{kind}_inductor.csv").open(newline="") as text:
            row = next(csv.DictReader(text))
        generated = [*(self.folder / f"{name}-caches" / "inductor").rglob("*.py")]
        if not generated or int(row["unique_graphs"]) < 1:
            raise NotMeasuredError(f"{name}: nothing was compiled: {row}")
        self.rows.append((f"PyTorch's harness, {what} of `{model}`", taken, judged(what, row)))

    def compilegate(self, name: str, suites: Sequence[str], tier: str = "standard") -> None:
        """Measure one session of compilegate with all models."""
        cases = [f"{model}-{self.device}-infer-f32-default-static" for model in self.models]
        marker = "gpu" if self.device == "cuda" else "cpu"
        taken = self.run(
            name,
            [
                *(sys.executable, "-m", "pytest", *suites, "-m", marker, "-n", "auto", "--tf32"),
                *(
                    "--tier",
                    tier,
                    "-p",
                    "no:cacheprovider",
                    "-o",
                    f"runs_dir={self.folder}",
                    "--save",
                    name,
                ),
                *(word for case in cases for word in ("--cases", case)),
            ],
            allowed=(0, 1),
        )
        run = files.read(self.folder / f"{name}.jsonl")
        for case in cases:
            seen = run.observations.get(case)
            if seen is None or seen.capture is None or not seen.capture.graphs:
                raise NotMeasuredError(f"{name}: {case} was not compiled:\n{seen}")
        counts = Counter(one.outcome for one in run.verdicts.values())
        if run.closing is None or counts["skipped"] == counts.total():
            raise NotMeasuredError(f"{name}: the run is incomplete")
        aspects = ", ".join(sorted({aspect for _, aspect in run.verdicts}))
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
        self.rows.append((f"compilegate, {name}", taken, f"{aspects}: {outcomes}"))

    def table(self) -> str:
        """The rows so far, as a table in Markdown."""
        harness = [seconds for what, seconds, _ in self.rows if what.startswith("PyTorch")]
        complete = len(harness) == 2 * len(self.models)
        lines = ["| what | seconds | the harness needs | judged or reported |", "|---|---|---|---|"]
        for what, seconds, text in self.rows:
            ratio = "" if what.startswith("PyTorch") else f"{sum(harness) / seconds:.2f} ×"
            lines.append(f"| {what} | {seconds:.1f} | {ratio if complete else ''} | {text} |")
        if complete:
            lines.insert(2 + len(harness), f"| all of the harness | {sum(harness):.1f} | | |")
        return "\n".join(lines)


def judged(what: str, row: Mapping[str, str]) -> str:
    """Say what the harness wrote about a model.

    Raises:
        NotMeasuredError: It did not get as far as a result.
    """
    if what == "accuracy":
        if row["accuracy"] not in ("pass", "fail_accuracy"):
            raise NotMeasuredError(f"the harness ended with {row['accuracy']}: {row}")
        return f"outputs: {row['accuracy']}; graph breaks: {row['graph_breaks']}"
    return (
        f"speedup {float(row['speedup']):.2f} ×, compiling {float(row['compilation_latency']):.1f} "
        f"s, memory of eager {float(row['compression_ratio']):.2f} ×, judges none of them"
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a process: compilegate ends its own children when it is interrupted."""
    if process.poll() is not None:
        return
    os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _last_lines(log: Path) -> str:
    return "\n".join(log.read_text().splitlines()[-40:])


def main() -> int:
    """Measure both and print a table; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--benchmarks", type=Path, required=True, metavar="DIR")
    parser.add_argument("--model", action="append", help="default: resnet50 and vit_b_16")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--minutes", type=float, default=10.0, help="stop after this time")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="copy compilegate's run files")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="harness-", ignore_cleanup_errors=True) as folder:
        session = Session(
            options.benchmarks.resolve(),
            options.model or ["resnet50", "vit_b_16"],
            options.device,
            Path(folder),
            time.monotonic() + 60 * options.minutes,
        )
        failure = ""
        try:
            warm_up = WARM_UP.format(device=session.device)
            session.run("warm-up", [sys.executable, "-c", warm_up])
            for model in session.models:
                session.harness(model, "accuracy")
                session.harness(model, "performance")
            alike = [f"suites/test_{name}.py" for name in SUITES]
            session.compilegate("same-aspects-smoke", alike, "smoke")
            session.compilegate("same-aspects", alike)
            session.compilegate("all-aspects", ["suites/"])
        except NotMeasuredError as stopped:
            failure = str(stopped)
        for run in session.folder.glob("*.jsonl") if options.keep else ():
            shutil.copy(run, options.keep)
        where = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
        print(f"torch {torch.__version__}, {where}, {os.cpu_count()} cores\n")
        print(session.table())
    if failure:
        print(f"\nSTOPPED: {failure}", file=sys.stderr)
    return 1 if failure else 0


if __name__ == "__main__":
    sys.exit(main())
