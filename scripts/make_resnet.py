"""Writes a quantised ResNet of random weights as ONNX, and images to calibrate and run it with."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

import numpy as np
import onnx

from autoq.four_bits import to_four_bits
from autoq.quantization import quantize
from autoq.zoo import resnet

BITS = (8, 4)


def make(depth: int, image: int, folder: Path, bits: int = 8) -> Path:
    """The path of `resnet<depth>.int<bits>.onnx` (QDQ, per channel), made unless it is there.

    One of 4 bits keeps its ends in 8 bits (`autoq.four_bits`).
    """
    quantized = folder / f"resnet{depth}.int{bits}.onnx"
    if quantized.exists():
        return quantized
    if bits == 4:
        onnx.save(to_four_bits(onnx.load(str(make(depth, image, folder)))), str(quantized))
        return quantized
    folder.mkdir(parents=True, exist_ok=True)
    plain = folder / f"resnet{depth}.onnx"
    onnx.save(resnet(depth, image=image), str(plain))
    rng = np.random.default_rng(0)
    images = folder / "images.npz"
    np.savez(images, input=rng.standard_normal((4, 3, image, image)).astype(np.float32))
    quantize(plain, images, quantized)
    return quantized


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--depth", type=int, default=18, choices=(18, 34, 50, 101))
    parser.add_argument("--bits", type=int, default=8, choices=BITS, help="of the inner layers")
    parser.add_argument("--image", type=int, default=224, help="height and width in pixels")
    parser.add_argument("--folder", type=Path, default=Path("build/models"))
    options = parser.parse_args()
    # onnxruntime advises on its own scripts through the root logger.
    logging.getLogger().setLevel(logging.ERROR)
    print(make(options.depth, options.image, options.folder, options.bits))


if __name__ == "__main__":
    main()
