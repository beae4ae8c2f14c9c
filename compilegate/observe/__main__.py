"""The observer's command line, which :mod:`compilegate.processes` runs under any interpreter.

``CASE_ID`` observes one case in the foreground and prints records as lines of JSON. ``--list FILE``
prints the models of zoo files. ``--serve FD --scratch DIR`` runs the fork server.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import pdb
import socket
import sys
from collections.abc import Container
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from compilegate.output.streams import clean_streams
from compilegate.records.bounded_text import bounded
from compilegate.records.case import Case, UnknownNameError
from compilegate.records.encoding import dumps
from compilegate.records.observation import WANTS, Observation, Stage, Want
from compilegate.records.practice import PRACTICES
from compilegate.records.request import Request
from compilegate.records.run import encode
from compilegate.zoo import practices, registry, tiers


def main() -> int:
    """Run the command line and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m compilegate.observe",
        description="Observe one case in the foreground, and print records as lines of JSON. This "
        "runs under any interpreter that has torch.",
    )
    parser.add_argument("case", nargs="?", metavar="CASE_ID")
    parser.add_argument(
        "--pdb", action="store_true", help="stop in the debugger where the case fails"
    )
    parser.add_argument("--environment", action="store_true", help="print the environment, too")
    parser.add_argument("--zoo", action="append", default=[], metavar="FILE", help="a zoo file")
    parser.add_argument("--root", default="", metavar="DIR", help="the root of the user's project")
    parser.add_argument("--seed", type=int, default=0, help="the seed (default: 0)")
    parser.add_argument("--backend", default="inductor", help="default: inductor")
    parser.add_argument("--tf32", action="store_true", help="let f32 products round to TF32")
    parser.add_argument("--cold", action="store_true", help="compile in an empty cache")
    parser.add_argument(
        "--want",
        action="append",
        choices=WANTS,
        help="what to observe (repeatable; default: everything)",
    )
    parser.add_argument(
        "--list", action="append", metavar="FILE", help="print the models of a zoo file"
    )
    parser.add_argument("--serve", type=int, metavar="FD", help=argparse.SUPPRESS)
    parser.add_argument("--scratch", metavar="DIR", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        _serve(options)
        _end()
    if options.list is None and options.case is None:
        parser.error("name a case, for instance resnet18-cpu-infer-f32-default-static")
    if options.list is not None:
        gc.disable()  # nothing that such a process imports becomes garbage
        with clean_streams():
            _list(options.list)
        _end()
    with clean_streams():
        return _observe(options)


def _end() -> NoReturn:
    """End this process without taking apart what it has imported: that takes 0.6 s after torch."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _observe(options: argparse.Namespace) -> int:
    """Observe one case in the foreground."""
    try:
        case = Case.parse(options.case)
        _import_torch()
        shipped = registry.load()
        models = registry.load_with(options.zoo)
        if case.model not in models:
            raise UnknownNameError("model", case.model, models)
        _refuse_without_gpu(case)
    except (ValueError, OSError) as error:
        print(f"compilegate: {error}", file=sys.stderr)
        return 2
    options.want = options.want or _everything(case, models[case.model], shipped)
    return _foreground(options, models)


def _import_torch() -> None:
    """Import PyTorch before a zoo file does, as the fork server and fresh processes do.

    This process then uses the same cache as theirs.

    The first imported module that holds ``torch`` is part of what Inductor looks a graph up by:
    pickle names it as the home of memory formats.
    """
    import torch  # noqa: F401 (for what importing it does)

    from compilegate.observe import cache_folder

    cache_folder.use_own()


def _refuse_without_gpu(case: Case) -> None:
    import torch

    from compilegate.observe.device import device

    if not device(case.device).is_available():
        raise ValueError(f"{case.id} needs a GPU that torch {torch.__version__} can use")


def _serve(options: argparse.Namespace) -> None:
    from compilegate.observe import server

    # Imports ask for GPUs. If the CUDA runtime answered here, no forked child could use them.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    control = socket.socket(fileno=options.serve)
    server.run(
        control,
        lambda requests, answers, folder: _answer(requests, answers, folder, options),
        Path(options.scratch),
    )


def _answer(requests: int, answers: int, folder: Path, options: argparse.Namespace) -> None:
    """Answer the requests of the parent in a forked child, until it closes the connection.

    Requests and answers are lines of JSON.

    Args:
        requests: The file descriptor of the requests.
        answers: The file descriptor of the answers.
        folder: The child's own folder for temporary files.
        options: The user's zoo files and the root of the user's project.
    """
    from compilegate.observe import temporary_folder
    from compilegate.observe.capture import source_place
    from compilegate.observe.device import held_bytes
    from compilegate.observe.host import environment
    from compilegate.observe.measure.alternation import ParentConnection
    from compilegate.observe.model_session import ModelSession

    source_place.name_from(options.root, options.zoo)
    with os.fdopen(requests) as lines, os.fdopen(answers, "w") as sink:

        def send(line: str) -> None:
            sink.write(line + "\n")
            sink.flush()

        def answer(**content: Any) -> None:
            send(dumps(content))

        def report(stage: Stage) -> None:
            answer(stage=stage, held_bytes=held_bytes())

        session: ModelSession | None = None
        for line in lines:
            request = json.loads(line)
            if "environment" in request:
                answer(environment=asdict(environment()))
            else:
                report("start")
                if session is None:
                    temporary_folder.enter(folder)
                    models = registry.load_with(options.zoo)
                    session = ModelSession(models, report, parent=ParentConnection(send, lines))
                wants, gpus = (tuple(request.pop(name)) for name in ("wants", "gpus"))
                observation = session.observe(Request(wants=wants, gpus=gpus, **request))
                sys.stdout.flush()
                sys.stderr.flush()
                answer(observation=json.loads(encode(observation)), last=session.is_spoiled)


def _list(files: list[str]) -> None:
    """Print the models of zoo files, or a sentence about the first mistake."""
    from compilegate.observe import descendants

    answer: dict[str, Any]
    descendants.adopt_orphans()
    with contextlib.redirect_stdout(sys.stderr):  # only the answer goes to stdout
        try:
            found = [m for file in files for m in registry.load_file(file, must_define_model=True)]
            answer = {"models": [model.to_dict() for model in found]}
        except registry.ZooError as error:
            answer = {"error": bounded(str(error))}
        finally:
            descendants.kill_children()
    print(dumps(answer))


def _everything(case: Case, model: registry.Model, shipped: Container[str]) -> list[Want]:
    """Return what a session of one version observes.

    Only two versions are compared by their warm start. Compile work and practices take too long to
    be observed in every case.
    """
    practised = practices.practices_of(case, model)
    left_out: set[Want] = {"start", *(name for name in PRACTICES if name not in practised)}
    if not tiers.counts_work(case, model, shipped=model.name in shipped):
        left_out.add("compile_work")
    return [want for want in WANTS if want not in left_out]


def _foreground(options: argparse.Namespace, models: dict[str, registry.Model]) -> int:
    from compilegate.observe.capture import source_place
    from compilegate.observe.model_session import ModelSession

    source_place.name_from(options.root, options.zoo)
    request = Request(
        case=options.case,
        wants=tuple(options.want),
        cold=options.cold,
        seed=options.seed,
        backend=options.backend,
        tf32=options.tf32,
    )

    reached: Stage | None = None

    def report(stage: Stage) -> None:
        nonlocal reached
        if stage != reached:  # a stage that lasts is reported again
            print(f"# {stage}", file=sys.stderr)
        reached = stage

    with contextlib.redirect_stdout(sys.stderr):  # only records go to stdout
        session = ModelSession(models, report, debug=pdb.post_mortem if options.pdb else None)
        observation: Observation = session.observe(request)
    print(encode(observation))
    if options.environment:
        from compilegate.observe.host import environment

        print(dumps({"environment": asdict(environment())}))
    return 0 if observation.status == "completed" else 1


if __name__ == "__main__":
    sys.exit(main())
