"""Models of the tutorials' claims that the zoo does not have at that size.

pytest suites/test_speedup.py -m gpu --zoo docs/claims.py --tier full --models resnet50_64
"""

from compilegate.zoo.example import Example
from compilegate.zoo.registry import model


@model("resnet50_64", vary={"batch": (64, 32)})
def resnet50_64():
    import torch
    import torchvision

    return Example(
        torchvision.models.resnet50(),
        inputs=lambda batch: (torch.randn(batch, 3, 224, 224),),
        dims={0: {0: "batch"}},
    )
