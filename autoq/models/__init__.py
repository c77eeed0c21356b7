"""Networks with random weights, for the quick start, benchmarks and tests; a file each."""

from __future__ import annotations

from autoq.models.bert import bert
from autoq.models.convnext import convnext
from autoq.models.densenet import densenet
from autoq.models.efficientnet import efficientnet_b0
from autoq.models.googlenet import googlenet
from autoq.models.mixer import mlp_mixer
from autoq.models.mobilenet import mobilenet_v2
from autoq.models.resnet import resnet
from autoq.models.shufflenet import shufflenet_v2
from autoq.models.vit import vit

__all__ = [
    "bert",
    "convnext",
    "densenet",
    "efficientnet_b0",
    "googlenet",
    "mlp_mixer",
    "mobilenet_v2",
    "resnet",
    "shufflenet_v2",
    "vit",
]
