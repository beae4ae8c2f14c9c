"""``pytest tests/faults --table``: compilegate detects every fault in models of the zoo."""


def test_compilegate_detects_every_fault_in_models_of_the_zoo(table):
    assert [cell.missed for cell in table.cells if cell.missed and not cell.undecided] == []


def test_the_models_without_a_fault_pass(table):
    assert {cell.unsound for cell in table.cells if cell.unsound and not cell.undecided} == set()
