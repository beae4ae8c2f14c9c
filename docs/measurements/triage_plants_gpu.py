"""Triage four planted faults, a known bug and a healthy case on a GPU: ``triage_plants_gpu.py``.

They are triaged at the same time, ``--jobs`` of them. For each, one row of a Markdown table says
whether the fault was planted, what triage found, and whether that is right. With ``--device cpu``,
what needs a GPU says that nothing was planted.
"""

import argparse
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from triage_plants import CHECKOUT, DECOMPOSITION, SITE, ZOO, judged, run

#: What a session may take before the triage, in seconds.
SESSION_S = 420.0

#: Notes in the file ``planted`` whether the change was made.
NOTED = """
change = plant


def plant(module):
    from pathlib import Path

    try:
        change(module)
        outcome = "planted"
    except Exception as error:
        outcome = f"NOT PLANTED: {error!r}"
    Path(__file__).with_name("planted").write_text(outcome)
"""

#: A replay computes with what is in the memory of the graph's inputs, not with the call's inputs.
REPLAY = """
def plant(module):
    node = module.CUDAGraphNode
    right = node._copy_inputs_and_remove_from_src

    def forget(self, targets, sources):
        if targets is not getattr(self, "reconstructed_inputs", None):
            return right(self, targets, sources)
        for index in self.non_static_input_idx:
            sources[index] = None

    node._copy_inputs_and_remove_from_src = forget
"""

#: Triton's ``tanh`` is one per cent too large.
TRITON = """
def plant(module):
    right = module.TritonOverrides.tanh
    module.TritonOverrides.tanh = staticmethod(lambda x: f"(({right(x)}) * 1.01)")
"""

#: Triton's ``erf`` reads an address that no tensor has.
ILLEGAL = """
ASM = "{ .reg .u64 a; mov.u64 a, 16; ld.global.f32 $0, [a]; }"


def plant(module):
    module.TritonOverrides.erf

    def read(x):
        return (
            f"tl.inline_asm_elementwise('{ASM}', '=f,f', [{x}], dtype=tl.float32, "
            "is_pure=False, pack=1)"
        )

    module.TritonOverrides.erf = staticmethod(read)
"""

#: The gradient of a layer norm's weight is a quarter too large: bfloat16 hides less.
BACKWARD = DECOMPOSITION.format(operator="native_layer_norm_backward.default", result=1)


@dataclass(frozen=True)
class Plant:
    """A fault in PyTorch, and what triage should say of it, as regular expressions.

    Attributes:
        case: The case that is observed; its device is left open.
        module: The module of PyTorch that is changed once it is imported; empty for no change.
        code: The change: a function ``plant(module)``.
        stage: The part of the compiler; empty where there is nothing to triage.
        place: The class of the smallest submodule that has the fault.
        names: The operator, pass or lowering.
    """

    case: str
    module: str = ""
    code: str = ""
    stage: str = ""
    place: str = ""
    names: str = ""


PLANTS = {
    "replay": Plant(
        "vit_small-{}-infer-f32-reduce_overhead-static",
        "torch._inductor.cudagraph_trees",
        REPLAY,
        "CUDA graphs",
    ),
    "triton-tanh": Plant(
        "gpt2_small-{}-infer-f32-default-static",
        "torch._inductor.codegen.triton",
        TRITON,
        "Inductor",
        "NewGELUActivation",
        "tanh",
    ),
    "triton-address": Plant(
        "vit_small-{}-infer-f32-default-static",
        "torch._inductor.codegen.triton",
        ILLEGAL,
        "Inductor",
        "GELU",
        "erf|gelu",
    ),
    "norm-gradient": Plant(
        "vit_small-{}-train-bf16-default-static",
        "torch._inductor.decomposition",
        BACKWARD.replace("1.01", "1.25"),
        "decompositions or partitioning",
        "LayerNorm",
        "layer_norm",
    ),
    "gh170863": Plant(
        "gh170863_dynamic_rate-{}-train-f32-reduce_overhead-dynamic", stage="CUDA graphs"
    ),
    "healthy": Plant("vit_small-{}-infer-f32-reduce_overhead-static"),
}


def row(name: str, device: str, minutes: float, folder: Path) -> str:
    """Triage a plant; return its row: what was found, and how long that took."""
    plant, home = PLANTS[name], folder / name
    home.mkdir(parents=True)
    if plant.module:
        code = SITE.format(module=plant.module, code=plant.code + NOTED)
        (home / "sitecustomize.py").write_text(code, encoding="utf-8")
    (home / "zoo.py").write_text(ZOO, encoding="utf-8")
    case, marker = plant.case.format(device), {"cuda": "gpu"}.get(device, device)
    session = f"pytest -q -m {marker} --tier full --case-timeout 120 --save red".split()
    session += ["--cases", case, "--zoo", str(home / "zoo.py"), "-o", f"runs_dir={home / 'runs'}"]
    session += [str(CHECKOUT / "suites" / f"test_{suite}.py") for suite in ("forward", "gradients")]
    began = time.monotonic()
    seen_s = 0.0
    words = ("red", case, "--runs", "runs", "--out", "reports", "--minutes", f"{minutes:g}")
    try:
        run(home, "session.log", *session, timeout_s=SESSION_S)
        seen_s = time.monotonic() - began
        run(home, "triage.log", "compilegate", "triage", *words, timeout_s=60 * minutes + 60)
        ended = ""
    except TimeoutError as error:
        ended = f" (killed: {error})"
    spent = time.monotonic() - began - seen_s
    shutil.rmtree(home / "cache", ignore_errors=True)
    cells = [name + ended, _planted(plant, home), *_found(plant, home)]
    return f"| {' | '.join(cells)} | {seen_s:.0f} + {spent:.0f} |"


def _planted(plant: Plant, home: Path) -> str:
    if not plant.module:
        return "nothing to plant"
    note = home / "planted"
    return note.read_text(encoding="utf-8") if note.exists() else "**NOT PLANTED**: not imported"


def _found(plant: Plant, home: Path) -> Iterator[str]:
    """Yield what the reports of a plant say, each with whether it is right."""
    log = home / "triage.log"
    said = log.read_text(encoding="utf-8") if log.exists() else ""
    reports = sorted((home / "reports").glob("*/report.md"))
    if not plant.stage:
        is_quiet = not reports and "nothing to triage" in said
        yield from ("nothing to triage: right" if is_quiet else "WRONG", "", "", "", "")
        return
    text = reports[0].read_text(encoding="utf-8") if reports else ""
    yield f"{len(reports)}: {'right' if len(reports) == 1 else 'WRONG'}"
    stage = re.search(r"\*\*Stage:\*\* ([^:]+):", text)
    yield judged(stage[1] if stage else "", rf"^{plant.stage}$")
    place = re.search(r"\*\*Submodule:\*\* (`[^`]*`) \(`(\w+)`\)", text)
    where = f"{place[1]}, {place[2]}" if place else ""
    yield judged(where, rf", {plant.place}$") if plant.place else where or "none"
    operator = re.search(r"\*\*Operator:\*\* `([^`]+)`", text)
    bisected = re.search(r"## Bisection\n+(.*?)\n+## ", text, re.DOTALL)
    named = (operator[1] if operator else "", bisected[1] if bisected else "")
    shown = re.sub(r"\s+", " ", "; ".join(filter(None, named)))[:160]
    yield judged(shown, plant.names) if plant.names else shown or "none"
    is_shown = bool(text) and "is not verified" not in text and "no script" not in text
    worked = len(re.findall(r"^Tried: ", text, re.MULTILINE))
    yield f"{'verified' if is_shown else 'NOT VERIFIED'}; {worked} workarounds"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("plants", nargs="*", metavar="PLANT", help=f"of {', '.join(PLANTS)}")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--minutes", type=float, default=4.0, help="for the triage of each")
    parser.add_argument("--jobs", type=int, default=1, help="how many at the same time")
    parser.add_argument("--out", type=Path, help="a new folder for reports and logs")
    options = parser.parse_args()
    folder = (options.out or Path(tempfile.mkdtemp(prefix="triage-plants-"))).resolve()
    print("| plant | planted | culprits | stage | place | operator, bisection | script | seconds |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        names = options.plants or [*PLANTS]
        for line in pool.map(
            lambda name: row(name, options.device, options.minutes, folder), names
        ):
            print(line, flush=True)


if __name__ == "__main__":
    main()
