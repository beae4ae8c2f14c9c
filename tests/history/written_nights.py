"""Run files of nights, with planted steps."""

import dataclasses

from tests.unit.making import (
    CASE_ID,
    make_environment,
    make_memory,
    make_observation,
    make_timing,
    make_verdict,
)
from tests.unit.runs import write_run

OTHER = "tiny-cpu-infer-f32-default-static"


def environment(triton="3.6", cores=2):
    (processor,) = make_environment().devices
    return make_environment(
        versions={"torch": "2.15.0", "triton": triton},
        devices=(dataclasses.replace(processor, cores=cores),),
    )


def observed(night, slower=False, case=CASE_ID, **changed):
    """A case whose speedup goes up and down by 0.5%."""
    speedup = 2.0 * (1 + 0.005 * (-1) ** night) * (0.9 if slower else 1.0)
    fields = {"timing": make_timing(speedup, spread=0.005), "memory": make_memory()}
    return make_observation(case=case, **fields | changed)


def write_nights(folder, count, at=None, **changed):
    """Nights on the last of which, from ``at`` on, compiled code is slower under another Triton."""
    folder.mkdir(exist_ok=True)
    for night in range(count):
        late = at is not None and night >= at
        write_run(
            folder / f"night-{night:02}.jsonl",
            observed(night, slower=late),
            observed(night, case=OTHER),
            make_verdict(),
            environment=environment("3.7" if late else "3.6"),
            created=f"2026-11-{night + 1:02}T02:17:00+00:00",
            **changed,
        )
    return folder
