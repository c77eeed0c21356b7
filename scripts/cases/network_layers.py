"""Layers of networks other than ResNet-50, for spaces that a model of records can learn from.

    python scripts/cases/network_layers.py > layers.json
    autoq record layers.json --samples 30 -o SPACES

None has the shape of a layer of `resnet50_cases.py` or `grouped_cases.py`, so that a model of these
spaces alone shows on those networks what it knows of shapes that nobody recorded.
"""

from __future__ import annotations

import json

from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.workload_key import to_dict

# Height and width, channels in and out, stride: of VGG-16, GoogLeNet, DenseNet-121, ResNet-18,
# YOLO and Inception-v3.
_THREE = (
    (112, 64, 128, 1), (56, 128, 256, 1), (28, 256, 512, 1), (14, 512, 512, 1), (56, 64, 192, 1),
    (28, 96, 128, 1), (28, 128, 192, 1), (14, 96, 208, 1), (14, 160, 320, 1), (7, 192, 384, 1),
    (56, 128, 32, 1), (28, 128, 32, 1), (14, 128, 32, 1), (56, 64, 128, 2), (40, 256, 256, 1),
    (20, 512, 512, 1), (35, 64, 96, 1), (40, 128, 256, 2),
)  # fmt: skip
# Height and width, channels in and out: of GoogLeNet, DenseNet-121, ResNeXt-50 and MobileNet-V2.
_ONE = (
    (28, 192, 64), (28, 256, 128), (14, 480, 192), (14, 512, 160), (7, 832, 384), (56, 160, 128),
    (28, 384, 128), (14, 768, 128), (7, 1024, 128), (28, 640, 256), (56, 96, 24), (14, 576, 96),
    (7, 320, 1280), (56, 128, 256), (28, 256, 512), (14, 512, 1024), (7, 1024, 2048),
    (20, 512, 256),
)  # fmt: skip
# Height and width, channels, groups, taps, stride: of ResNeXt-101, RegNets and mobile networks.
_GROUPED = (
    (56, 256, 64, 3, 1), (28, 512, 64, 3, 1), (14, 1024, 64, 3, 1), (14, 384, 8, 3, 1),
    (112, 64, 64, 3, 2), (14, 480, 480, 5, 1), (28, 144, 144, 5, 1), (7, 672, 672, 3, 1),
    (28, 160, 10, 3, 1), (14, 400, 25, 3, 1), (56, 144, 144, 5, 2), (28, 240, 240, 3, 2),
    (14, 480, 480, 3, 1), (7, 1152, 1152, 5, 1), (56, 64, 4, 3, 1), (14, 256, 8, 3, 1),
    (28, 96, 96, 3, 1), (14, 320, 20, 3, 1),
)  # fmt: skip
# Height and width, channels in and out, taps: of stride 2, of ResNet-18 and YOLO.
_STRIDED = (
    (28, 128, 256, 3), (14, 256, 512, 3), (56, 64, 128, 1), (28, 128, 256, 1), (14, 256, 512, 1),
    (80, 64, 128, 3),
)  # fmt: skip
_BATCHES = (8, 1, 8, 128)


def convolutions() -> list[Conv2d]:
    """One batch size of each, batches of 8 twice as often as of 1 and of 128."""
    layers = [(h, c, k, 3, s, 1) for h, c, k, s in _THREE]
    layers += [(h, c, k, 1, 1, 1) for h, c, k in _ONE]
    layers += [(h, c, c, taps, s, groups) for h, c, groups, taps, s in _GROUPED]
    layers += [(h, c, k, taps, 2, 1) for h, c, k, taps in _STRIDED]
    return [
        Conv2d(_BATCHES[i % 4], h, h, c, k, taps, taps, (stride, stride), (taps // 2,) * 4,
               groups=groups, in_dtype="uint8", epilogue=_epilogue(c, k, stride))
        for i, (h, c, k, taps, stride, groups) in enumerate(layers)
    ]  # fmt: skip


def _epilogue(c: int, k: int, stride: int) -> Epilogue:
    """Layers of twice the channels and the same image end a block of ResNeXt-50, with its sum."""
    return Epilogue("uint8", "uint8", True) if k == 2 * c and stride == 1 else Epilogue("uint8")


CASES = convolutions()


def main() -> None:
    """Print the layers as `autoq record` takes them."""
    print(json.dumps([to_dict(case) for case in CASES]))


if __name__ == "__main__":
    main()
