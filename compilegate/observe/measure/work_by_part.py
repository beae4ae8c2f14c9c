"""From counted calls to the record: the part of PyTorch that each belongs to, and its name."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterable
from functools import cache
from types import CodeType
from typing import Literal

from compilegate.records.performance import CompileWork

Part = Literal["dynamo", "aot", "inductor", "codegen", "rest"]

#: The modules of each part; the first that fits counts. What AOTAutograd traces with, Dynamo uses,
#: too: fake tensors, decompositions, proxies.
PARTS: tuple[tuple[Part, tuple[str, ...]], ...] = (
    (
        "codegen",
        (
            "torch._inductor.codegen",
            "torch._inductor.codecache",
            "torch._inductor.async_compile",
            "torch._inductor.cpp_builder",
            "torch._inductor.runtime",
            "triton",
        ),
    ),
    ("inductor", ("torch._inductor",)),
    ("dynamo", ("torch._dynamo", "torch._guards")),
    (
        "aot",
        (
            "torch._functorch",
            "torch._subclasses",
            "torch._decomp",
            "torch._dispatch",
            "torch._higher_order_ops",
            "torch._meta_registrations",
            "torch._prims",
            "torch._prims_common",
            "torch._refs",
            "torch.fx.experimental.proxy_tensor",
        ),
    ),
)
#: The packages whose functions are not counted. How often SymPy calls its own depends on the order
#: of its sets, which differs from process to process; who calls SymPy more is counted.
LEFT_OUT = ("sympy", "mpmath")
#: As many functions as a record keeps.
KEPT = 40

#: The name of a file that Inductor writes: a hash.
_HASH = re.compile(r"c[a-z2-7]{50,}")
_GENERATED = "<generated>"


def compile_work(calls: Iterable[tuple[CodeType, int]]) -> CompileWork:
    """Return the record of counted calls.

    Args:
        calls: Functions, and how often each was called.
    """
    parts: Counter[Part] = Counter()
    functions: Counter[str] = Counter()
    for code, count in calls:
        module = module_of(code.co_filename)
        if module.partition(".")[0] in LEFT_OUT:
            continue
        parts[part_of(module)] += count
        functions[f"{module}.{code.co_qualname}"] += count
    most = sorted(functions.items(), key=lambda item: (-item[1], item[0]))[:KEPT]
    return CompileWork(
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
        dynamo=parts["dynamo"],
        aot=parts["aot"],
        inductor=parts["inductor"],
        codegen=parts["codegen"],
        rest=parts["rest"],
        functions=dict(most),
    )


@cache
def part_of(module: str) -> Part:
    """Return the part that a module belongs to."""
    for part, prefixes in PARTS:
        if any(module == prefix or module.startswith(f"{prefix}.") for prefix in prefixes):
            return part
    return "rest"


@cache
def module_of(file: str) -> str:
    """Return the module of a source file, as far as ``sys.path`` shows it.

    Code that was generated has no file, or one that is named by a hash.
    """
    if file.startswith("<frozen "):
        return file.removeprefix("<frozen ").removesuffix(">")
    if file.startswith("<"):
        return _GENERATED
    roots = (root for entry in sys.path if entry and file.startswith(root := entry + os.sep))
    longest = max(roots, key=len, default=os.path.dirname(file) + os.sep)
    name = file.removeprefix(longest).removesuffix(".py").removesuffix(f"{os.sep}__init__")
    module = name.replace(os.sep, ".")
    return _GENERATED if _HASH.fullmatch(module.rpartition(".")[2]) else module
