"""The matrix tells caught faults from plants without effect, and its sample is spread."""

import itertools
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
import torch

from tests.faults.catalogue import SOUND
from tests.faults.matrix import kept, page
from tests.faults.matrix.cells import FAMILIES, PARTS, SETTINGS, all_cells, spread
from tests.faults.matrix.filling import Filling
from tests.faults.matrix.kinds import KINDS
from tests.faults.matrix.store import Store
from tests.faults.planting import effects
from tests.faults.planting.hooks import PLANTS

pytestmark = pytest.mark.long

CHECKOUT = Path(__file__).resolve().parents[3]
CASE = "mlp-cpu-infer-f32-default-static"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Cells of the smallest model."""
    file = tmp_path_factory.mktemp("matrix") / "cells.json"
    words = ["-m", "tests.faults.matrix", "--backend", "aot_eager_decomp_partition", "-n", "1"]
    words += ["--cases", CASE, "--again", "--out", str(file)]
    words += ["--kinds", "a_third_percent", "--kinds", "residual_lost"]
    done = subprocess.run([sys.executable, *words], cwd=CHECKOUT, check=False)
    assert done.returncode == 0
    return Store.read(file)


def test_a_planted_fault_is_caught_and_its_twin_passes(store):
    verdicts = {cell.kind: (cell.verdict, cell.aspects) for cell in store.cells}
    assert verdicts["a_third_percent"] == ("caught", ("forward",))
    (twin,) = store.twins.values()
    assert set(twin.outcomes.values()) <= {"passed", "skipped"}
    assert twin.outcomes["forward"] == "passed"


def test_a_plant_without_effect_is_not_applicable(store):
    reasons = {cell.kind: cell.why for cell in store.cells if cell.verdict == "not applicable"}
    assert reasons == {"residual_lost": "the plant found nothing to change"}


def test_a_cell_is_filled_once(store, tmp_path):
    cells = [cell for cell in all_cells("cpu") if cell.case.id == CASE]
    left = []
    filling = Filling(store, tmp_path / "cells.json", cells, threading.Event(), print)
    while group := filling.next_group():
        left += [cell.kind.name for cell in group]
    assert {cell.kind.name for cell in cells} - {*left} == {"a_third_percent", "residual_lost"}


def test_a_cell_that_the_page_has_is_not_filled_again(tmp_path):
    known = kept.decided("inductor")
    cells = all_cells("cuda")
    empty = Store({})
    filling = Filling(empty, tmp_path / "cells.json", cells, threading.Event(), print, known=known)
    groups = iter(filling.next_group, [])
    left = {(cell.kind.name, cell.case.id) for group in groups for cell in group}
    assert left == {(cell.kind.name, cell.case.id) for cell in cells} - known


def test_each_element_of_a_large_result_shows_in_what_is_kept():
    sound, off = torch.zeros(10, 1001), torch.zeros(10, 1001)
    off[1, 1] = 1.0

    def kept(result):
        return torch.cat([one.double() for one in effects._values(result, most=100)])

    assert not torch.equal(kept(off), kept(sound))
    assert torch.equal(kept(sound), kept(sound.clone()))


def test_every_kind_has_a_plant_and_only_those_of_settings_are_alone():
    assert KINDS.keys() <= PLANTS.keys()
    assert SOUND in PLANTS
    configures = {name for name in KINDS if PLANTS[name].configure is not None}
    alone = {name for name, kind in KINDS.items() if kind.alone}
    assert configures <= alone


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_short_sample_has_every_kind_family_and_setting(device):
    cells = all_cells(device)
    sample = [*itertools.chain.from_iterable(itertools.islice(spread(cells), 50))]
    assert {cell.kind.name for cell in sample} == KINDS.keys()
    assert {cell.values[-1][0] for cell in sample} == FAMILIES.keys()
    assert len(sample) == len(set(sample))
    if device == "cuda":
        assert {cell.case.setting for cell in sample} == set(SETTINGS)


def test_the_sequence_has_every_cell_once():
    cells = [cell for cell in all_cells("cpu") if cell.case.model in ("mlp", "decoder")]
    groups = [*spread(cells)]
    assert Counter(itertools.chain.from_iterable(groups)) == Counter(cells)
    assert all(len({cell.case for cell in group}) == 1 for group in groups)


def test_each_part_of_a_model_is_one_that_a_kind_changes():
    parts = {kind.part for kind in KINDS.values()} - {""}
    assert set().union(*PARTS.values()) == parts


def test_the_page_is_that_of_the_kept_cells():
    assert page.PAGE.read_text() == page.page()
    assert "not explained" not in page.page()
