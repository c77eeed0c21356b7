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


def make(depth: int, image: int, folder: Path) -> Path:
    """The path of `resnet<depth>.int8.onnx` (QDQ, per channel), made unless it is there."""
    quantized = folder / f"resnet{depth}.int8.onnx"
    if quantized.exists():
        return quantized
    folder.mkdir(parents=True, exist_ok=True)
    plain = folder / f"resnet{depth}.onnx"
    onnx.save(resnet(depth, image=image), str(plain))
    rng = np.random.default_rng(0)
    images = folder / "images.npz"
    np.savez(images, input=rng.standard_normal((4, 3, image, image)).astype(np.float32))
    quantize(plain, images, quantized)
    return quantized


def make_four_bits(depth: int, image: int, folder: Path) -> Path:
    """The path of `resnet<depth>.int4.onnx`, the int8 one requantised, made unless it is there."""
    path = folder / f"resnet{depth}.int4.onnx"
    if not path.exists():
        onnx.save(to_four_bits(onnx.load(str(make(depth, image, folder)))), str(path))
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--depth", type=int, default=18, choices=(18, 34, 50, 101))
    parser.add_argument("--bits", type=int, default=8, choices=(8, 4))
    parser.add_argument("--image", type=int, default=224, help="height and width in pixels")
    parser.add_argument("--folder", type=Path, default=Path("build/models"))
    options = parser.parse_args()
    # onnxruntime advises on its own scripts through the root logger.
    logging.getLogger().setLevel(logging.ERROR)
    write = make if options.bits == 8 else make_four_bits
    print(write(options.depth, options.image, options.folder))


if __name__ == "__main__":
    main()
