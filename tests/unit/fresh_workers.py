"""Workers for the tests of fresh processes: what they do is the task of their job."""

import os
import pickle
import signal
import subprocess
import time

from compilegate.observe.practices.fresh_process import announce, answer_in, job_in


def main(folder):
    job = job_in(folder)
    answer = TASKS[job["task"]]()
    if answer is not None:
        answer_in(folder, answer)


def double():
    import torch

    doubled = 2 * torch.tensor([1.0, 2.0])
    return {"doubled": doubled, "pid": os.getpid(), "fresh": os.environ["FRESH"]}


def refuse():
    raise ValueError("no such task")


def die():
    announce("load it")
    announce("call it")
    os.kill(os.getpid(), signal.SIGKILL)


def hang():
    child = subprocess.Popen(["sleep", "1000"])
    print(f"child {child.pid}", flush=True)
    time.sleep(1000)


def name_home():
    import torch

    return {"home": pickle.whichmodule(torch.contiguous_format, "torch.contiguous_format")}


TASKS = {
    "double": double,
    "raise": refuse,
    "die": die,
    "be silent": lambda: None,
    "hang": hang,
    "name the home of memory formats": name_home,
}
