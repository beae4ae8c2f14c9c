"""Sessions of pairs that chance alone makes, and what is found in them.

Processes have a mood of 2%, rounds within them none that matters.
"""

import itertools
import math
import random

import pytest

from compilegate.upgrade.paired_costs import judge, suspects
from tests.unit.making import make_costs, make_pair

pytestmark = pytest.mark.long

MOOD = 0.02


def calls(judged):
    """What was found of the time of calls, case by case."""
    return [changes[0] for changes in judged.values()]


def session(draw, count, slower=(), mood=MOOD):
    """The judgement of a session of which some cases are slower by a tenth; K = 5."""

    def between(number, index):
        factor = 1.1 if index in slower else 1.0
        sides = {
            side: make_costs(2e6, 1e6 * math.exp(draw.gauss(0, mood)) * planted)
            for side, planted in (("baseline", 1.0), ("candidate", factor))
        }
        return make_pair(number, f"m{index}-cpu-infer-f32-default-static", **sides)

    made = {index: [between(0, index)] for index in range(count)}
    for index, (first,) in made.items():
        if suspects(first):
            made[index] += [between(k, index) for k in range(1, 6)]
    changes = calls(judge(itertools.chain(*made.values())))
    for index, change in enumerate(changes):
        if change.wants_more:
            made[index] += [between(k, index) for k in range(6, 11)]
    changes = calls(judge(itertools.chain(*made.values())))
    return {index for index, change in enumerate(changes) if change.fails}


def test_one_pair_alone_would_raise_the_alarm_in_one_case_of_seven():
    draw = random.Random(7)
    costs = (make_costs(2e6, 1e6 * math.exp(draw.gauss(0, MOOD))) for _ in itertools.count())
    screening = (make_pair(baseline=next(costs), candidate=next(costs)) for _ in range(8000))
    assert 0.10 < sum(bool(suspects(pair)) for pair in screening) / 8000 < 0.20


@pytest.mark.parametrize(("count", "sessions"), [(1, 4000), (6, 2000), (200, 50)])
@pytest.mark.parametrize(("mood", "rate"), [(MOOD, 0.001), (2 * MOOD, 0.003)])
def test_false_alarms_are_rare_where_nothing_changed(count, sessions, mood, rate):
    draw = random.Random(7)
    alarms = sum(bool(session(draw, count, mood=mood)) for _ in range(sessions))
    assert alarms / sessions <= rate, alarms


def test_a_slowdown_of_a_tenth_is_found_and_few_others():
    draw = random.Random(8)
    planted = set(range(0, 200, 40))
    found = false = 0
    for _ in range(40):
        slower = session(draw, 200, planted)
        found += len(slower & planted)
        false += len(slower - planted)
    assert found / (40 * len(planted)) > 0.9
    assert false / max(found + false, 1) < 0.05
