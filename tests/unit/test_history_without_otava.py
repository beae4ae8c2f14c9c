"""``compilegate history`` where Apache Otava is missing."""

import subprocess
import sys

PROGRAM = """
import sys

sys.modules["otava"] = None
from compilegate.__main__ import main
sys.exit(main(["history", "."]))
"""


def test_a_missing_otava_is_one_sentence_that_says_how_to_install_it(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 2
    assert done.stderr.startswith("compilegate: history needs Apache Otava")
    assert "pip install apache-otava" in done.stderr
    assert "Traceback" not in done.stderr
