"""``pytest tests/faults --table``: every fault is detected in the zoo's own models, too."""


def test_every_fault_is_detected_in_models_of_the_zoo(table):
    assert [cell.missed for cell in table.cells if cell.missed and not cell.undecided] == []


def test_the_models_without_a_fault_pass(table):
    assert {cell.unsound for cell in table.cells if cell.unsound and not cell.undecided} == set()
