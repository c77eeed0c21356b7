"""Writes quantised networks of random weights as ONNX, and images to calibrate and run them with.

Prints the path of the network asked for.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx

from autoq import models
from autoq.quantization.four_bits import to_four_bits
from autoq.quantization.quantize import quantize

BITS = (8, 4)
NETWORKS: dict[str, Callable[..., onnx.ModelProto]] = {
    **{
        f"resnet{depth}": lambda image, depth=depth: models.resnet(depth, image=image)
        for depth in (18, 34, 50, 101)
    },
    "efficientnet_b0": lambda image: models.efficientnet_b0(image=image),
    "mobilenet_v2": lambda image: models.mobilenet_v2(image=image),
    "googlenet": lambda image: models.googlenet(image=image),
    "shufflenet_v2": lambda image: models.shufflenet_v2(image=image),
    "mlp_mixer": lambda image: models.mlp_mixer(image=image),
    "vit": lambda image: models.vit(image=image),
}
"""Networks for images of a height and width in pixels, by name."""


def make_network(network: str, image: int, folder: Path, bits: int = 8) -> Path:
    """The path of `<network>.int<bits>.onnx` (QDQ, per channel), made unless it is there.

    One of 4 bits keeps its ends in 8 bits (`autoq.quantization.four_bits`).
    """
    quantized = folder / f"{network}.int{bits}.onnx"
    if quantized.exists():
        return quantized
    if bits == 4:
        eight = onnx.load(str(make_network(network, image, folder)))
        onnx.save(to_four_bits(eight), str(quantized))
        return quantized
    folder.mkdir(parents=True, exist_ok=True)
    plain = folder / f"{network}.onnx"
    onnx.save(NETWORKS[network](image), str(plain))
    rng = np.random.default_rng(0)
    images = folder / "images.npz"
    np.savez(images, input=rng.standard_normal((4, 3, image, image)).astype(np.float32))
    quantize(plain, images, quantized)
    return quantized


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("--bits", type=int, default=8, choices=BITS, help="of the inner layers")
    parser.add_argument("--image", type=int, default=224, help="height and width in pixels")
    parser.add_argument("--folder", type=Path, default=Path("build/models"))
    options = parser.parse_args()
    # onnxruntime advises on its own scripts through the root logger.
    logging.getLogger().setLevel(logging.ERROR)
    print(make_network(options.network, options.image, options.folder, options.bits))


if __name__ == "__main__":
    main()
