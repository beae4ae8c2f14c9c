"""The search finds the smallest cause, whatever it is, in few environments."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from compilegate.upgrade.attribution.groups import Group
from compilegate.upgrade.attribution.search import as_causes, search


def single(name):
    return Group(name, frozenset({name}))


def group(*names):
    """A group that can be divided into its names."""
    return Group(names[0], frozenset(names), tuple(map(single, names)) if len(names) > 1 else ())


TORCH, TIMM = group("torch", "triton", "nvidia-cudnn"), group("timm")
REST = group("a", "b", "c", "d", "e", "f", "g", "h")
#: No example has a deadline: a busy machine proves nothing about logic.
LOGIC = settings(deadline=None, database=None)
GROUPS = [TORCH, TIMM, REST]


def run(groups, show):
    """The result of a search, and the environments that it tried."""
    tried = {}
    searching = search(groups)
    try:
        names = next(searching)
        while True:
            tried.setdefault(names, show(names))
            names = searching.send(tried[names])
    except StopIteration as stop:
        return stop.value, tried


def of(*causes):
    """Show red where all names of one of the causes changed."""
    return lambda names: "red" if any(names.issuperset(cause) for cause in causes) else "green"


def test_one_distribution_is_found_alone():
    found, tried = run(GROUPS, of({"timm"}))
    assert found.names == {"timm"}
    assert list(tried) == [TORCH.names, TIMM.names, frozenset()]


def test_triton_is_separated_from_the_torch_that_it_came_with():
    found, _ = run(GROUPS, of({"triton"}))
    assert found.names == {"triton"}
    assert list(as_causes(found.names, GROUPS)) == [("triton",)]


def test_a_combination_is_found_where_nothing_alone_explains():
    found, _ = run(GROUPS, of({"timm", "torch"}))
    assert found.names == {"timm", "torch"}
    assert list(as_causes(found.names, GROUPS)) == [("torch",), ("timm",)]


def test_two_of_a_bundle_are_two_causes():
    bundle = Group("a", frozenset("abc"), tuple(map(single, "abc")), is_bundle=True)
    found, _ = run([TORCH, bundle], of({"a", "c"}))
    assert list(as_causes(found.names, [TORCH, bundle])) == [("a",), ("c",)]


def test_the_smaller_of_two_combinations_is_found():
    groups = [single(name) for name in "abcde"]
    found, _ = run(groups, of({"a", "b", "c"}, {"d", "e"}))
    assert found.names == {"d", "e"}


def test_nothing_is_attributed_where_all_changes_show_nothing():
    found, tried = run(GROUPS, of())
    assert (found.names, found.with_all) == (frozenset(), "green")
    assert len(tried) == len(GROUPS) + 1


def test_nothing_is_attributed_to_a_change_that_shows_without_it():
    found, _ = run(GROUPS, lambda names: "red")
    assert (found.names, found.without_any) == (frozenset(), "red")


def test_an_environment_that_does_not_work_is_no_cause():
    """A torch without its Triton cannot be imported, so its group stays together."""

    def show(names):
        if ("torch" in names) != ("triton" in names):
            return "unclear"
        return of({"torch"})(names)

    found, tried = run(GROUPS, show)
    assert found.names == TORCH.names
    assert len(tried) == 1 + len(TORCH.parts) + 1


def test_nothing_is_attributed_where_the_whole_cannot_be_tried():
    found, _ = run(GROUPS, lambda names: "unclear" if names else "green")
    assert (found.names, found.with_all) == (frozenset(), "unclear")


@st.composite
def problems(draw):
    """Groups of distributions, and the sets of distributions that make a case worse."""
    sizes = draw(st.lists(st.integers(1, 7), min_size=1, max_size=5))
    groups = [group(*(f"{g}.{i}" for i in range(size))) for g, size in enumerate(sizes)]
    names = sorted(frozenset().union(*(one.names for one in groups)))
    cause = st.sets(st.sampled_from(names), min_size=1, max_size=4)
    return groups, draw(st.lists(cause, min_size=1, max_size=3))


def spread(groups, names):
    """How many groups some names are in."""
    return sum(bool(one.names & names) for one in groups)


@LOGIC
@given(problems())
def test_what_is_found_explains_and_nothing_in_it_can_be_left_out(problem):
    groups, causes = problem
    show = of(*causes)
    found, _ = run(groups, show)
    assert show(found.names) == "red"
    assert all(show(found.names - {name}) == "green" for name in found.names)
    assert spread(groups, found.names) == min(spread(groups, cause) for cause in causes)


@LOGIC
@given(problems())
def test_a_single_cause_is_found_exactly(problem):
    groups, (cause, *_) = problem
    found, _ = run(groups, of(cause))
    assert found.names == cause


@LOGIC
@given(problems())
def test_the_number_of_environments_is_bounded(problem):
    groups, causes = problem
    found, tried = run(groups, of(*causes))
    n, parts = len(groups), max(len(one.names) for one in groups)
    # At most four parts of a group are first tried one by one.
    combined = sum(math.comb(n, size) for size in range(2, max(spread(groups, found.names), 2)))
    divided = sum(
        2 * len(one.names & found.names) * (math.ceil(math.log2(parts)) + 1) + 5 for one in groups
    )
    assert len(tried) <= 2 * n + 2 + combined + divided


@LOGIC
@given(problems())
def test_no_environment_is_tried_with_changes_that_do_not_exist(problem):
    groups, causes = problem
    every = frozenset().union(*(one.names for one in groups))
    _, tried = run(groups, of(*causes))
    assert all(names <= every for names in tried)
