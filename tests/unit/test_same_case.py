"""A bench that a fresh process builds again gives the same model and the same answers."""

import torch

from compilegate.observe.model.reference import Reference
from compilegate.observe.phases.builder import Builder
from compilegate.observe.phases.progress import Progress
from compilegate.observe.practices.bench import Bench
from compilegate.observe.practices.same_case import described, rebuilt
from compilegate.records.case import Case
from compilegate.records.request import Request
from compilegate.zoo import registry


def test_a_case_is_built_again_with_its_weights(tmp_path):
    case = Case.parse("mlp-cpu-infer-f32-default-static")
    progress = Progress(lambda stage: None)
    builder = Builder(registry.load()["mlp"], case, 3, progress)
    weight, value = next(iter(builder().parameters().items()))
    builder.weights = {weight: value.detach() + 1}
    request = Request(case=case.id, wants=(), seed=3)
    bench = Bench(builder, request, progress, Reference(builder), False)
    torch.save(described(bench), tmp_path / "job.pt")
    again = rebuilt(torch.load(tmp_path / "job.pt", weights_only=True))
    ours, theirs = bench.build(), again.build()
    for name, parameter in ours.parameters().items():
        assert torch.equal(parameter, theirs.parameters()[name]), name
    made, remade = bench.call_eager(ours), again.call_eager(theirs)
    assert [*made.output] == [*remade.output]
    for path, leaf in made.output.items():
        assert torch.equal(leaf, remade.output[path]), path
