"""What torch.compile captures of a function."""

import inspect

import torch

from compilegate.observe.capture.compile_log import CompileLog

X = torch.ones(3, 4)


def run(function, *calls, backend="eager", **options):
    """Call a compiled function with each tuple of arguments; return what was captured."""
    compiled = torch.compile(function, backend=backend, **options)
    log = CompileLog()
    for index, arguments in enumerate(calls):
        compiled(*arguments)
        log.after_call(index)
    return log.capture()


def line_of(function, text):
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)
