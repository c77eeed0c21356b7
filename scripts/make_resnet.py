"""Writes a quantised ResNet of random weights as ONNX, and images to calibrate and run it with."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from make_model import BITS, make_network


def make(depth: int, image: int, folder: Path, bits: int = 8) -> Path:
    """The path of `resnet<depth>.int<bits>.onnx`, see `make_network`."""
    return make_network(f"resnet{depth}", image, folder, bits)


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
