"""``--budgets-update``: writes what failed on counts, speed, memory and compile time; no more."""

import tomllib

from tests.integration.conftest import EXACT, MATVEC, ZOOS, faulty_case

MINE = '# Mine, by hand.\n\n[[budget]]\nmodel = "resnet*"\nrecompiles = 3 # why\n'


def test_counts_and_memory_are_updated_and_numbers_never(compilegate, write):
    mine = write("mine.toml", MINE)
    models = ("breaks", "recompiles", "wastes_memory", "scale_is_off", "uncompilable")
    chosen = [word for model in models for word in ("--cases", faulty_case(model))]
    zoo = ("--zoo", str(ZOOS / "faulty.py"))
    updating = compilegate(
        *EXACT, *zoo, *chosen, "--save", "stored", "--budgets", mine, "--budgets-update"
    )
    assert updating.status == 1
    failed = updating.counts["failed"]

    changes = [line for line in updating.output.splitlines() if "budget updated:" in line]
    assert [(mine in line, "(new)" in line) for line in changes] == [(True, True)] * 3
    with open(mine, "rb") as file:
        (by_hand, *entries) = tomllib.load(file)["budget"]
    by_model = {entry["case"].partition("-")[0]: entry for entry in entries}
    assert by_hand == {"model": "resnet*", "recompiles": 3}
    assert by_model.keys() == {"breaks", "recompiles", "wastes_memory"}
    assert by_model["breaks"]["graph_breaks"][0]["place"] == "tests/zoos/faulty.py"
    assert by_model["recompiles"]["recompiles"] == 4
    assert by_model["wastes_memory"]["memory_slack_bytes"] > 2**24  # eager needs a few bytes
    with open(mine) as file:
        assert file.read().startswith(MINE)

    again = compilegate(*EXACT, "--replay", "stored", "--budgets", mine)
    assert again.counts["failed"] == failed - 3
    assert "test_outputs_match_eager[scale_is_off-" in again.output
    updated = ("-k", "[breaks- or [recompiles- or [wastes_memory-")
    clean = compilegate(*EXACT, "--replay", "stored", "--budgets", mine, *updated)
    assert clean.status == 0, clean.output


def test_an_update_without_a_change_is_reported(compilegate, stored, write):
    stored("unbroken", "scale_is_off")
    mine = write("mine.toml", MINE)
    session = compilegate(
        *EXACT, "--replay", "stored", "--budgets", mine, "--budgets-update", "-k", "not outputs"
    )
    assert session.status == 0, session.output
    assert "no budget needed to change" in session.output
    with open(mine) as file:
        assert file.read() == MINE


def test_it_is_refused_under_ci(compilegate):
    session = compilegate("--cases", MATVEC, "--budgets-update", env={"CI": "true"})
    assert session.status == 4
    assert "--budgets-update is refused under CI" in session.output
