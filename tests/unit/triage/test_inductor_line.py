"""A report names the line of Inductor that raises, and no line of what does not raise there."""

import pytest

from compilegate.culprits.grouping import culprits
from compilegate.judging.budget import Budget
from compilegate.records.part import OwnCode
from compilegate.triage.findings import Findings
from compilegate.triage.report import issue
from compilegate.triage.report.inductor_line import raising
from compilegate.triage.search.ladder import Stage
from compilegate.triage.search.seen import Seen
from compilegate.triage.search.suspect import Suspect
from tests.unit.failing import A, failures
from tests.unit.making import make_environment, make_failed_observation

SITE = "/venv/lib/python3.11/site-packages"
ABOVE = f"""Traceback (most recent call last):
  File "{SITE}/torch/_dynamo/eval_frame.py", line 900, in compile_wrapper
    return fn(*args, **kwargs)
"""
RAISES = f"""{ABOVE}  File "{SITE}/torch/_inductor/graph.py", line 70, in call_function
    out = lowerings[target](*args, **kwargs)
          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "{SITE}/torch/_inductor/lowering.py", line 1469, in pad
    assert_divisible(x)
  File "{SITE}/torch/utils/_sympy/functions.py", line 7, in assert_divisible
    raise RuntimeError("odd")
torch._inductor.exc.InductorError: LoweringException: RuntimeError: odd
"""
LINE = "torch/_inductor/lowering.py:1469 in pad: assert_divisible(x)"
#: Code that Inductor generated is called by Inductor's own.
GENERATED = f"""{ABOVE}  File "{SITE}/torch/_inductor/output_code.py", line 9, in __call__
    return self.current_callable(inputs)
  File "/home/a/torchinductor_a/xy/cxyz.py", line 33, in call
    assert_size_stride(arg0_1, (2, 3), (3, 1))
AssertionError: expected size 2==3
"""
COMPILER = f"""{ABOVE}  File "{SITE}/torch/_inductor/cpp_builder.py", line 814, in _run_compile_cmd
    raise exc.CppCompileError(cmd, output) from e
torch._inductor.exc.InductorError: CppCompileError: C++ compile error
"""
PASS = OwnCode(kind="pass", keys=("post_grad_custom_post_pass",), name="team.Clamp", source="a:1")


def shown(traceback, backend="inductor", **found):
    failed = make_failed_observation("raised", case=A, traceback=traceback)
    wrong = failures(failed)
    (culprit,) = culprits(wrong)
    suspect = Suspect(culprit, failed, [wrong[0].verdict], lambda case: Budget(), "2.15.0")
    findings = Findings(stage=Stage(backend, {backend: Seen("bad")}), **found)
    return issue.text(suspect, findings, make_environment(), "command", "")


def test_the_innermost_line_of_inductor_is_named():
    assert raising(RAISES) == LINE
    assert f"**Line of Inductor:** the compiler raises at `{LINE}`." in shown(RAISES)


def test_a_line_without_its_code_is_named():
    bare = "\n".join(line for line in RAISES.splitlines() if not line.startswith("    "))
    assert raising(bare) == LINE.partition(": ")[0]


@pytest.mark.parametrize("traceback", [ABOVE, GENERATED, COMPILER, ""])
def test_no_line_is_named_where_something_else_raises(traceback):
    assert not raising(traceback)
    assert "Line of Inductor" not in shown(traceback)


def test_none_is_named_of_another_stage_or_of_a_pass_of_the_team():
    assert "Line of Inductor" not in shown(RAISES, backend="aot_eager")
    assert "Line of Inductor" not in shown(RAISES, guilty=PASS)
