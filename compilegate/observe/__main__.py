"""``python -m compilegate.observe CASE_ID``: observe one case in the foreground, print it as JSON.

This is the command that every failure prints. ``--pdb`` stops in the debugger where it fails.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pdb
import socket
import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

from compilegate.records.case import Case, UnknownNameError
from compilegate.records.encoding import dumps
from compilegate.records.observation import WANTS, Observation, Stage
from compilegate.records.request import Request
from compilegate.records.run import encode
from compilegate.zoo import registry


def main() -> int:
    """Parse the command line and do as it says; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m compilegate.observe", description=__doc__)
    parser.add_argument("case", nargs="?", metavar="CASE_ID")
    parser.add_argument("--pdb", action="store_true", help="debug where it fails")
    parser.add_argument("--zoo", action="append", default=[], metavar="FILE", help="a zoo file")
    parser.add_argument("--seed", type=int, default=0, help="of weights and inputs (default: 0)")
    parser.add_argument("--backend", default="inductor", help="default: inductor")
    parser.add_argument("--tf32", action="store_true", help="let f32 products round to TF32")
    parser.add_argument("--cold", action="store_true", help="compile in an empty cache")
    parser.add_argument(
        "--want",
        action="append",
        choices=WANTS,
        help="what to observe (repeatable; default: everything)",
    )
    parser.add_argument("--serve", type=int, metavar="FD", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        return _serve(options)
    if options.case is None:
        parser.error("name a case, for instance resnet18-cpu-infer-f32-default-static")
    try:
        case = Case.parse(options.case)
        models = registry.load_with(options.zoo)
        if case.model not in models:
            raise UnknownNameError("model", case.model, models)
        _refuse_without_gpu(case)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    return _foreground(options, models)


def _refuse_without_gpu(case: Case) -> None:
    if case.device != "cuda":
        return
    import torch

    if not torch.cuda.is_available():
        raise ValueError(f"{case.id} needs a GPU that torch {torch.__version__} can use")


def _serve(options: argparse.Namespace) -> int:
    from compilegate.observe import server

    # Asking the CUDA runtime for devices, as imports do, would spoil it for every forked child.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    control = socket.socket(fileno=options.serve)
    server.run(control, lambda requests, answers: _answer(requests, answers, options.zoo))
    return 0


def _answer(requests: int, answers: int, files: list[str]) -> None:
    """A child: answer requests, JSON lines both ways, until there are no more."""
    from compilegate.observe.host import environment
    from compilegate.observe.measure.alternation import Line
    from compilegate.observe.model_session import Session

    with os.fdopen(requests) as lines, os.fdopen(answers, "w") as sink:

        def say(line: str) -> None:
            sink.write(line + "\n")
            sink.flush()

        def answer(**content: Any) -> None:
            say(dumps(content))

        def report(stage: Stage) -> None:
            answer(stage=stage)

        session: Session | None = None
        for line in lines:
            request = json.loads(line)
            if "list" in request:
                answer(models=_listing(request["list"]))
            elif "environment" in request:
                answer(environment=asdict(environment()))
            else:
                report("start")
                session = session or Session(
                    registry.load_with(files), report, line=Line(say, lines)
                )
                wants = tuple(request.pop("wants"))
                observation = session.observe(Request(wants=wants, **request))
                sys.stdout.flush()
                sys.stderr.flush()
                answer(observation=json.loads(encode(observation)), last=session.is_spoiled)


def _listing(file: str) -> Any:
    """The models of a user's file, or the traceback of importing it."""
    try:
        return [entry.to_dict() for entry in registry.load_file(file)]
    except Exception as error:
        chain = traceback.TracebackException.from_exception(error)
        own = str(Path(__file__).parents[1])
        machinery = (own, "<frozen")
        kept = [frame for frame in chain.stack if not frame.filename.startswith(machinery)]
        chain.stack = traceback.StackSummary.from_list(kept)
        return "".join(chain.format())


def _foreground(options: argparse.Namespace, models: dict[str, registry.Model]) -> int:
    from compilegate.observe.model_session import Session

    request = Request(
        case=options.case,
        wants=tuple(options.want or WANTS),
        cold=options.cold,
        seed=options.seed,
        backend=options.backend,
        tf32=options.tf32,
    )

    def report(stage: Stage) -> None:
        print(f"# {stage}", file=sys.stderr)

    with contextlib.redirect_stdout(sys.stderr):  # only the record goes to stdout
        session = Session(models, report, debug=pdb.post_mortem if options.pdb else None)
        observation: Observation = session.observe(request)
    if observation.failure is not None:
        print(observation.failure.traceback, file=sys.stderr)
    print(encode(observation))
    return 0 if observation.status == "completed" else 1


if __name__ == "__main__":
    sys.exit(main())
