"""Triage twelve planted faults in large models: ``triage_plants.py [--minutes N] [PLANT…]``.

For each, a ``sitecustomize`` breaks PyTorch in every interpreter, a session observes one case, and
``compilegate triage`` looks for the fault. It prints one row of a Markdown table a plant.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
#: Backends, and the stage that each of them adds.
DECOMPOSED, INDUCTOR = "aot_eager_decomp_partition", "inductor"
STAGES = {DECOMPOSED: "decompositions or partitioning", INDUCTOR: "Inductor"}
SUITES = ("forward", "gradients")

#: The whole models, on small inputs of one size.
ZOO = """
import torch
from compilegate import Example, model

ALL = (
    "infer-f32-default-static",
    "train-f32-default-static",
    "infer-f32-reduce_overhead-static",
    "train-bf16-default-static",
)


@model("resnet18_small", settings=ALL)
def resnet18_small():
    from torchvision.models import resnet18

    return Example(resnet18(num_classes=10), inputs=lambda: (torch.randn(2, 3, 64, 64),))


@model("vit_small", settings=ALL)
def vit_small():
    import timm

    module = timm.create_model("test_vit", img_size=64, num_classes=16)
    return Example(module, inputs=lambda: (torch.randn(2, 3, 64, 64),))


@model("gpt2_small", settings=ALL)
def gpt2_small():
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = GPT2Config(vocab_size=100, n_embd=64, n_layer=2, n_head=4, use_cache=False)
    return Example(GPT2LMHeadModel(sizes), inputs=lambda: (torch.randint(3, 100, (2, 16)),))
"""

SITE = '''
import importlib.abc
import importlib.util
import sys

{code}


class Finder(importlib.abc.MetaPathFinder):
    """Calls ``plant`` once the module is executed."""

    def find_spec(self, name, path, target=None):
        if name != "{module}":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module
        spec.loader.exec_module = lambda module: (run(module), plant(module))
        return spec


sys.meta_path.insert(0, Finder())
'''

DECOMPOSITION = """
def plant(module):
    from torch.utils import _pytree as pytree
    import torch

    table, operator = module.decompositions, torch.ops.aten.{operator}
    right = table[operator]

    def wrong(*args, **kwargs):
        values, spec = pytree.tree_flatten(right(*args, **kwargs))
        values[{result}] = values[{result}] * 1.01
        return pytree.tree_unflatten(values, spec)

    table[operator] = wrong
"""

LOWERING = """
def plant(module):
    from torch.utils import _pytree as pytree
    import torch

    table, operator = module.lowerings, torch.ops.{operator}
    right, times = table[operator], table[torch.ops.aten.mul.Tensor]

    def wrong(*args, **kwargs):
        values, spec = pytree.tree_flatten(right(*args, **kwargs))
        values[0] = times(values[0], 1.01)
        return pytree.tree_unflatten(values, spec)

    table[operator] = wrong
"""

#: A pass after AOTAutograd: what {after} makes of an {before} becomes one per cent too large.
PASS = """
def plant(module):
    import torch
    from torch.fx.passes.graph_transform_observer import GraphTransformObserver

    aten, right = torch.ops.aten, module.post_grad_passes

    def scale(graph):
        for node in list(graph.nodes):
            if node.target is not {after}:
                continue
            if not any({before} for source in node.all_input_nodes):
                continue
            with graph.inserting_after(node):
                wrong = graph.call_function(aten.mul.Tensor, (node, 1.01))
            wrong.meta = dict(node.meta)
            node.replace_all_uses_with(wrong, delete_user_cb=lambda user: user is not wrong)

    def passes(graph_module, *args, **kwargs):
        right(graph_module, *args, **kwargs)
        observer = GraphTransformObserver(graph_module, "planted_pass", "post_grad_passes")
        observer.apply_graph_pass(scale)
        graph_module.recompile()

    module.post_grad_passes = passes
"""

#: Where Inductor fuses several loops into a kernel, its ``rsqrt`` is one per cent too large.
FUSION = """
def plant(module):
    generate, fused = module.CppKernelProxy.codegen_nodes, []

    def generate_and_note(self, nodes):
        fused[:] = nodes[1:]
        return generate(self, nodes)

    module.CppKernelProxy.codegen_nodes = generate_and_note
    for overrides, one in (
        (module.CppOverrides, "1.01f"),
        (module.CppVecOverrides, "decltype({x})(1.01f)"),
    ):
        def wrong(x, right=overrides.rsqrt, one=one):
            return f"({right(x)}) * {one.format(x=x)}" if fused else right(x)

        overrides.rsqrt = staticmethod(wrong)
"""


@dataclass(frozen=True)
class Plant:
    """A fault in PyTorch, and what triage should say of it.

    Attributes:
        case: The case that is observed.
        backend: The first backend that shows the fault.
        module: The module of PyTorch that is changed once it is imported.
        code: The change: a function ``plant(module)``.
        place: The class of the smallest submodule that has the fault.
        names: A regular expression for the operator, pass or lowering.
    """

    case: str
    backend: str
    module: str
    code: str
    place: str
    names: str


def _decomposition(case: str, operator: str, result: int, place: str, names: str) -> Plant:
    code = DECOMPOSITION.format(operator=operator, result=result)
    return Plant(case, DECOMPOSED, "torch._inductor.decomposition", code, place, names)


def _lowering(case: str, operator: str, place: str, names: str) -> Plant:
    code = LOWERING.format(operator=operator)
    return Plant(case, INDUCTOR, "torch._inductor.lowering", code, place, names)


def _pass(case: str, before: str, after: str, place: str) -> Plant:
    code = PASS.format(before=before, after=after)
    module = "torch._inductor.fx_passes.post_grad"
    return Plant(case, INDUCTOR, module, code, place, "planted_pass")


RESNET, VIT, GPT = "resnet18_small-cpu-{}", "vit_small-cpu-{}", "gpt2_small-cpu-{}"
INFER, TRAIN = "infer-f32-default-static", "train-f32-default-static"
PLANTS = {
    "resnet-norm": _decomposition(
        RESNET.format(INFER),
        "_native_batch_norm_legit_no_training.default",
        0,
        "BatchNorm2d",
        "batch_norm",
    ),
    "resnet-norm-gradient": _decomposition(
        RESNET.format(TRAIN), "native_batch_norm_backward.default", 1, "BatchNorm2d", "batch_norm"
    ),
    "resnet-pool": _lowering(
        RESNET.format(INFER), "prims._low_memory_max_pool_with_offsets.default", "MaxPool2d", "pool"
    ),
    "resnet-shortcut": _pass(
        RESNET.format(INFER),
        "source.target is aten.add.Tensor",
        "aten.relu.default",
        "BasicBlock",
    ),
    "vit-norm": _decomposition(
        VIT.format(INFER), "native_layer_norm.default", 0, "LayerNorm", "layer_norm"
    ),
    "vit-gelu-gradient": _decomposition(
        VIT.format(TRAIN), "gelu_backward.default", 0, "GELU", "gelu"
    ),
    "vit-erf": _lowering(VIT.format(INFER), "aten.erf.default", "GELU", "erf|gelu"),
    "vit-shortcut": _pass(
        VIT.format(INFER),
        "source.target is aten.add.Tensor",
        "aten.add.Tensor",
        "Block",
    ),
    "gpt-embedding-gradient": _decomposition(
        GPT.format(TRAIN), "embedding_dense_backward.default", 0, "Embedding", "embedding"
    ),
    "gpt-norm-gradient": _decomposition(
        GPT.format(TRAIN), "native_layer_norm_backward.default", 1, "LayerNorm", "layer_norm"
    ),
    "gpt-tanh": _lowering(GPT.format(INFER), "aten.tanh.default", "NewGELUActivation", "tanh"),
    "gpt-fusion": Plant(
        GPT.format(INFER),
        INDUCTOR,
        "torch._inductor.codegen.cpp",
        FUSION,
        "LayerNorm",
        "rsqrt|fusion|layer_norm",
    ),
}


def rows(names: Sequence[str], minutes: float, folder: Path) -> Iterator[str]:
    """Yield a row for each plant: what triage found, and how long that took."""
    for name in names:
        plant, home = PLANTS[name], folder / name
        home.mkdir(parents=True)
        code = SITE.format(module=plant.module, code=plant.code)
        (home / "sitecustomize.py").write_text(code, encoding="utf-8")
        (home / "zoo.py").write_text(ZOO, encoding="utf-8")
        session = f"pytest -q -m cpu --tier full --backend {plant.backend} --save red".split()
        session += ["--cases", plant.case, "--zoo", str(home / "zoo.py")]
        session += ["-o", f"runs_dir={home / 'runs'}"]
        session += [str(CHECKOUT / "suites" / f"test_{suite}.py") for suite in SUITES]
        run(home, "session.log", *session)
        began = time.monotonic()
        words = ("red", "--runs", "runs", "--out", "reports", "--minutes", f"{minutes:g}")
        run(home, "triage.log", "compilegate", "triage", *words)
        spent = time.monotonic() - began
        yield f"| {name} | {' | '.join(_found(plant, home / 'reports'))} | {spent:.0f} |"


def run(home: Path, log: str, *words: str, timeout_s: float | None = None) -> None:
    """Run a module of Python where PyTorch is broken; keep what it prints.

    Raises:
        TimeoutError: It took longer than it may, and was killed.
    """
    path = ":".join(filter(None, (str(home), str(CHECKOUT), os.environ.get("PYTHONPATH"))))
    paths = {"PYTHONPATH": path, "TORCHINDUCTOR_CACHE_DIR": str(home / "cache")}
    with (home / log).open("w", encoding="utf-8") as target:
        try:
            subprocess.run(
                [sys.executable, "-P", "-m", *words],
                cwd=home,
                env={**os.environ, **paths},
                stdout=target,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=timeout_s,
            )
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(f"{words[0]} took {error.timeout:.0f} s") from error


def _found(plant: Plant, reports: Path) -> Iterator[str]:
    """Yield what the reports of a plant say, each with whether it is right."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(reports.glob("*/report.md"))]
    yield str(len(texts))
    text = texts[0] if texts else ""
    stage = re.search(r"\*\*Stage:\*\* ([^:]+):", text)
    yield judged(stage[1] if stage else "", STAGES[plant.backend])
    place = re.search(r"\*\*Submodule:\*\* (`[^`]*`) \(`(\w+)`\)", text)
    yield judged(f"{place[1]}, {place[2]}" if place else "", rf", {plant.place}$")
    operator = re.search(r"\*\*Operators?:\*\* (`.+?`) (?:fail|has|is)", text)
    bisected = re.search(r"## Bisection\n+(.*?)\n+## ", text, re.DOTALL)
    named = (operator[1] if operator else "", bisected[1] if bisected else "")
    yield judged(re.sub(r"\s+", " ", "; ".join(filter(None, named)))[:160], plant.names)
    is_shown = bool(text) and "is not verified" not in text and "no script" not in text
    yield "verified" if is_shown else "not verified"


def judged(found: str, expected: str) -> str:
    """Return what was found, and whether it is what was expected."""
    return f"{found or 'none'}: {'right' if re.search(expected, found) else 'WRONG'}"


def print_table(
    rows_of: Callable[[Sequence[str], float, Path], Iterable[str]],
    names: Iterable[str],
    columns: Sequence[str],
) -> None:
    """Print the rows of the faults that the command line names; by default of all.

    Args:
        rows_of: Returns the rows of some faults, given the minutes of each and a folder.
        names: All faults.
        columns: The names of the columns. The first one says what the faults are.
    """
    kind, known = columns[0], list(names)
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar=kind.upper(), help=f"of {', '.join(known)}")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--out", type=Path, help="a new folder for reports and logs")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"no {kind} {unknown[0]}: choose from {', '.join(known)}")
    folder = (options.out or Path(tempfile.mkdtemp(prefix=f"triage-{kind}-"))).resolve()
    print(f"| {' | '.join(columns)} |")
    print("|" + "---|" * len(columns))
    for row in rows_of(options.names or known, options.minutes, folder):
        print(row, flush=True)


if __name__ == "__main__":
    columns = ("plant", "culprits", "stage", "place", "operator, bisection", "script", "seconds")
    print_table(rows, PLANTS, columns)
