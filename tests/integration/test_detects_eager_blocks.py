"""Blocks that run eagerly at other sizes fail ``recompiles``, where each block is compiled."""

import pytest

from tests.integration.conftest import ZOOS, command, run_to_its_end

SETTINGS = [f"cpu-infer-f32-default-{dynamic}-regional" for dynamic in ("static", "auto")]


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    runs = tmp_path_factory.mktemp("blocks") / "runs"
    chosen = [word for setting in SETTINGS for word in ("--cases", f"*-{setting}")]
    zoo = ("--zoo", str(ZOOS / "blocks.py"), "--models", "*blocks*")
    words = command("suites/test_recompiles.py", "--tier", "full", *zoo, *chosen, runs=runs)
    return run_to_its_end(words, None, runs, timeout_s=240.0)


@pytest.mark.parametrize("setting", SETTINGS)
def test_blocks_that_run_eagerly_at_other_sizes_fail_recompiles(seen, setting):
    failed = seen.failed(f"blocks_left_to_eager-{setting}")
    assert "blocks ran eagerly: nothing was compiled for their sizes" in failed["recompiles"]


@pytest.mark.parametrize("setting", SETTINGS)
def test_blocks_that_never_see_a_size_need_no_code_for_it(seen, setting):
    assert seen.outcomes(f"sound_blocks-{setting}") == {"passed"}
