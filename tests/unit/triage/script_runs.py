"""Runs of ``repro.py`` for tests of what it says, without the seconds of PyTorch's import.

Each script has a process of its own, forked from one that has imported PyTorch and done no more.
``tests/integration/test_triage.py`` runs scripts in fresh interpreters.
"""

import atexit
import functools
import json
import os
import subprocess
import sys

SERVER = """
import json, os, runpy, sys, traceback
import torch, torch._dynamo

def run(asked):
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(asked[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.chdir("/")
    sys.argv, sys.path[:0] = asked["words"], asked["path"]
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return int(end.code or 0)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0

for line in sys.stdin:
    child = os.fork()
    if not child:
        status = run(json.loads(line))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@functools.cache
def server():
    words = [sys.executable, "-P", "-c", SERVER]
    environment = {**os.environ, "PYTHONPATH": ""}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    made = subprocess.Popen(words, env=environment, **pipes, text=True)
    atexit.register(made.stdin.close)
    return made


def run(text, folder, *path, backend="eager"):
    """Run a script, with some folders of modules; return its status and what it wrote."""
    script, out, err = (folder / name for name in ("repro.py", "script.out", "script.err"))
    script.write_text(text)
    words = [str(script), backend]
    asked = {"words": words, "path": [*map(str, path)], "out": str(out), "err": str(err)}
    made = server()
    print(json.dumps(asked), file=made.stdin, flush=True)
    status = int(made.stdout.readline())
    return subprocess.CompletedProcess(words, status, out.read_text(), err.read_text())
