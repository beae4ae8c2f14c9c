"""Generated programs: the same for the same number, closed, and reduced to what matters."""

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from types import SimpleNamespace

import pytest

from compilegate.fuzzing.generate import generate
from compilegate.fuzzing.operators.mutation import with_another
from compilegate.fuzzing.outcome import Symptom
from compilegate.fuzzing.program import Program, Statement, Value, zoo_text
from compilegate.fuzzing.reduction import Reducer, smaller
from compilegate.fuzzing.scope import Variable, promoted
from compilegate.fuzzing.script import entry_text, script_text
from compilegate.records.case import Case

PROGRAMS = [generate(7, number) for number in range(150)]


def test_a_program_is_the_same_in_each_process():
    code = "from compilegate.fuzzing.generate import generate as g\n"
    code += "from compilegate.fuzzing.program import zoo_text\n"
    code += "print(zoo_text([g(7, number) for number in range(150)]))"
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.rstrip() == zoo_text(PROGRAMS).rstrip()


def test_a_program_is_the_same_on_each_device():
    others = [generate(7, number, device="cuda") for number in range(150)]
    assert [replace(one, device="cpu") for one in others] == PROGRAMS
    assert {Case.parse(one.case).device for one in others} == {"cuda"}


def test_tensors_that_a_program_makes_are_where_its_inputs_are():
    """Only a number may be on the CPU."""
    made = re.compile(r"torch\.(?:tensor|arange|linspace|full)\(.*")
    lines = [found[0] for program in PROGRAMS for found in made.finditer(program.code)]
    assert len(lines) > 30
    assert all("device=" in line or line.startswith("torch.full((), ") for line in lines)


def test_programs_differ_by_seed_and_number():
    others = [generate(8, number) for number in range(150)]
    assert len({replace(one, name="") for one in [*PROGRAMS, *others]}) == 300


def test_programs_use_everything_that_they_define():
    for program in PROGRAMS:
        assert program.is_closed()
        assert program == program.pruned()
        assert Case.parse(program.case).id == program.case


def test_programs_have_every_kind_of_setting():
    assert {program.phase for program in PROGRAMS} == {"infer", "train"}
    assert {program.dynamic for program in PROGRAMS} == {"static", "auto", "dynamic", "marked"}
    assert len({name for program in PROGRAMS for name in program.operators}) > 150


def test_generating_needs_no_torch():
    code = "import sys; from compilegate.fuzzing.generate import generate; generate(0, 0)\n"
    code += "sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (Variable("v1", ((3, 3), (1, 1)), "int64", root="x"), "x.sub_(v1.clone())"),
        (Variable("y", ((3, 3), (1, 1)), "int64"), "x.sub_(y)"),
        (Variable("x", ((3, 3), (2, 2)), "int64"), "x.sub_(x)"),
    ],
    ids=["a view of itself", "another", "itself"],
)
def test_a_tensor_is_changed_by_a_copy_of_what_is_a_part_of_it(other, text):
    picked = iter([Variable("x", ((3, 3), (2, 2)), "int64"), other])
    written = []
    scope = SimpleNamespace(
        values=[],
        trains=False,
        pick=lambda fits: next(picked),
        rng=SimpleNamespace(choice=lambda texts: "{x}.sub_({y})"),
        write=lambda name, line, target, others: written.append(line),
    )
    with_another(scope)
    assert written == [text]


LINE = 'call 1: output "a\\b": it\'s wrong'


def test_files_of_a_finding_are_python():
    for program in (*PROGRAMS[:40], generate(7, 0, device="cuda")):
        compile(script_text(program, LINE, 3), "finding.py", "exec")
        compile(entry_text(program, Symptom(kind="values", line=LINE)), "entry.py", "exec")


@pytest.mark.parametrize(
    ("kind", "line", "key", "named"),
    [
        ("values", LINE, "aspect", "forward"),
        ("raises not", LINE, "aspect", "forward"),
        ("gradients", "call 1: update p0 differs", "aspect", "gradients"),
        ("state", "before: call 1: gradient of p0 differs", "aspect", "side_effects"),
        ("raises", "raised in stage vary: KeyError: 'x'", "stage", "vary"),
        ("crash", "crashed in stage call: exit: 3", "stage", "crash"),
    ],
)
def test_the_entry_of_a_finding_names_what_fails(kind, line, key, named):
    comment = entry_text(PROGRAMS[0], Symptom(kind=kind, line=line)).partition("\n\n")[0]
    lines = [line.removeprefix("# ") for line in comment.splitlines() if line.startswith("# ")]
    (entry,) = tomllib.loads("\n".join(lines[:4]))["expected_failure"]
    assert entry[key] == named
    assert entry["model"] == PROGRAMS[0].name


def test_a_dtype_is_promoted_as_torch_promotes_it():
    assert promoted("bfloat16", "float16") == "float32"
    assert promoted("uint8", "int8") == "int16"
    assert promoted("int64", "float16") == "float16"


def chain(*texts, returns=None, values=()):
    """A program in which each statement reads the one before."""
    statements, last = [], "x0"
    for index, text in enumerate(texts):
        made = f"v{index}"
        statements.append(
            Statement(
                text=f"{made} = {text.format(last)}",
                makes=(made,),
                reads=(last,),
                operator=text,
                input_text="torch.randn(16, 3)",
                alike=("x0", *(f"v{i}" for i in range(index))),
            )
        )
        last = made
    given = Value(name="x0", text="torch.randn(n, 3, dtype=torch.float64)", dims=(0,))
    return Program(
        name="fuzz.0.0",
        values=(given, *values),
        statements=tuple(statements),
        returns=returns or (last,),
    )


def reduce(program, fails):
    seen = []

    def first_failing(candidates, until):
        seen.extend(candidates)
        return next(filter(fails, candidates), None)

    return Reducer(first_failing, seconds=60).reduce(program), seen


def texts(program):
    return [one.text.partition(" = ")[2] for one in program.statements]


def test_a_program_is_reduced_to_the_statement_at_fault():
    program = chain(*["torch.cos({})"] * 5, "torch.sin({})", *["torch.tan({})"] * 4)
    reduced, _ = reduce(program, lambda one: "torch.sin" in " ".join(texts(one)))
    assert [one.operator for one in reduced.statements] == ["torch.sin({})"]
    assert "float64" not in reduced.values[0].text
    assert not reduced.varies


def test_two_statements_that_only_fail_together_stay():
    program = chain("{} + 1", "torch.sin({})", "{} * 2", "{} * 3", "torch.tan({})", "{} - 1")

    def fails(one):
        joined = " ".join(texts(one))
        return "sin" in joined and "tan" in joined

    reduced, _ = reduce(program, fails)
    assert [one.operator for one in reduced.statements] == ["torch.sin({})", "torch.tan({})"]
    assert reduced.is_closed()


def test_the_beginning_of_a_program_is_replaced_at_once():
    """Each trial of a compiled program takes seconds, and here sixteen results are needed."""
    text = "torch.randn(16, 3)"
    branches = [
        Statement(text=f"b{n} = torch.cos(x0)", makes=(f"b{n}",), reads=("x0",), input_text=text)
        for n in range(16)
    ]
    sums = [
        Statement(text=f"t{n} = t{n - 1} + b{n}", makes=(f"t{n}",), reads=(f"t{n - 1}", f"b{n}"))
        for n in range(1, 16)
    ]
    first = Statement(text="t0 = b0 + 1", makes=("t0",), reads=("b0",))
    program = replace(chain("{}", returns=("t15",)), statements=(*branches, first, *sums))
    needs = lambda one: sum("+" in each for each in texts(one)) == 16  # noqa: E731
    reduced, seen = reduce(program, needs)
    assert len(reduced.statements) == 16
    assert len(seen) < 80


def test_what_a_program_needs_stays():
    program = chain("torch.sin({})")
    reduced, _ = reduce(program, lambda one: one.varies and one.dynamic == "static")
    assert reduced.varies


def test_no_candidate_is_tried_twice_or_is_open():
    program = chain(*["torch.cos({})"] * 4, returns=("v1", "v3"))
    _, seen = reduce(program, lambda one: False)
    assert len(seen) == len(set(seen))
    assert all(one.is_closed() for one in seen)


def test_a_statement_that_writes_to_an_input_is_kept():
    write = Statement(text="x0.add_(1)", reads=("x0",), writes=("x0",), operator="add_")
    program = replace(chain("{} + 1"), statements=(write, *chain("{} + 1").statements))
    assert write in program.pruned().statements


def test_parameters_are_attributes_in_the_source():
    weight = Value(name="w0", text="torch.randn(3)", kind="parameter")
    uses = Statement(text="v0 = x0 * w0", makes=("v0",), reads=("x0", "w0"), operator="mul")
    program = replace(chain("{}", values=(weight,)), statements=(uses,))
    assert "v0 = x0 * self.w0" in zoo_text([program])
    assert "self.w0 = nn.Parameter(torch.randn(3))" in zoo_text([program])


@pytest.mark.parametrize(
    ("text", "status"), [("x0 * 1", 0), ("x0 if torch.compiler.is_compiling() else x0 * 1", 1)]
)
def test_a_script_shows_that_results_share_memory_otherwise(text, status):
    program = replace(chain(text), backend="eager", phase="infer")
    namespace = {"__name__": "finding"}
    exec(script_text(program, "aliasing differs", 0), namespace)
    assert namespace["main"]() == status


@pytest.mark.parametrize(
    ("strides", "becomes"),
    [("(48, 1, 12)", "(12, 1, 3)"), ("(48, 4, 1)", "(12, 4, 1)"), ("(0, 12, 1)", "(0, 3, 1)")],
    ids=["permuted", "contiguous", "expanded, which keeps its own"],
)
def test_strides_fit_the_sizes_that_a_reduction_leaves(strides, becomes):
    text = f"torch.empty_strided((5, 12, 4), {strides}, dtype=torch.float32).copy_(x)"
    value = Value(name="x", text=text)
    program = Program(name="p", values=(value,), statements=(), returns=("x",))
    found = [one.values[0].text for one in smaller(program)]
    assert text.replace("12, 4)", "3, 4)").replace(strides, becomes) in found


@pytest.mark.parametrize(("least", "left"), [(5, 5), (7, 7), (1, 1), (2, 2), (16, 16)])
def test_a_size_is_reduced_to_the_smallest_that_fails(least, left):
    value = Value(name="x", text="torch.randn(16)")
    flip = Statement(text="y = x.flip(0)", makes=("y",), reads=("x",))
    program = Program(name="p", values=(value,), statements=(flip,), returns=("y",))

    def fails(one):
        sizes = re.findall(r"randn\((\d+)\)", one.values[0].text) if one.values else []
        return bool(one.statements and sizes) and int(sizes[0]) >= least

    reduced, seen = reduce(program, fails)
    assert reduced.values[0].text == f"torch.randn({left})"
    assert len(seen) < 40


def test_two_sizes_are_reduced_apart():
    value = Value(name="x", text="torch.randn(6, 16)")
    flip = Statement(text="y = x.flip(-1)", makes=("y",), reads=("x",))
    program = Program(name="p", values=(value,), statements=(flip,), returns=("y",))

    def fails(one):
        sizes = re.findall(r"randn\(\d+, (\d+)\)", one.values[0].text) if one.values else []
        return bool(one.statements and sizes) and int(sizes[0]) >= 5

    assert reduce(program, fails)[0].values[0].text == "torch.randn(1, 5)"
