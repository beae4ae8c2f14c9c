"""What one failed test of a case shows, its others do not repeat, unless it runs again itself."""

from compilegate.session.suite_fixtures import Printed

CASE, COMMAND = "net-cpu-infer-f32-default-static", "python -m compilegate observe net"


def test_another_test_does_not_repeat_an_explanation_or_a_command():
    printed = Printed()
    assert not printed.explains_elsewhere(CASE, "forward")
    assert not printed.shows_elsewhere(COMMAND, "forward")
    assert printed.explains_elsewhere(CASE, "memory")
    assert printed.shows_elsewhere(COMMAND, "memory")


def test_a_test_that_runs_again_explains_again():
    printed = Printed()
    assert not any(printed.explains_elsewhere(CASE, "forward") for _ in range(3))
    assert not any(printed.shows_elsewhere(COMMAND, "forward") for _ in range(3))
    assert printed.explains_elsewhere(CASE, "memory")
