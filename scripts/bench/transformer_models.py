"""ONNX models of random weights for `bench_transformers.py`, with feeds and what they should give.

Models with bytes come from onnxruntime's quantize_static, in QDQ form, of every operator that it
quantises. Those with weights of 4 bits are float16, their products MatMulNBits in groups of 32.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from bench_cpu_models import onnxruntime_session

from autoq import models
from autoq.models.weight_only import to_float16, to_matmul_nbits
from autoq.quantization import quantize

VOCABULARY = 30522
CALIBRATION_SEED, FEED_SEED = 0, 1


@dataclass(frozen=True)
class Case:
    """A network for one batch: how results name it, its float32 model, its input and its form.

    network is a name of `torch_transformers.NETWORKS`, and arguments are those of its maker there.
    """

    title: str
    network: str
    make: Callable[[], onnx.ModelProto]
    shape: tuple[int, ...]
    form: str = "int8"

    @property
    def tokens(self) -> bool:
        """Whether the input is one of tokens."""
        return len(self.shape) == 2

    def feed(self, seed: int) -> np.ndarray:
        """Normal numbers, or tokens."""
        rng = np.random.default_rng(seed)
        if self.tokens:
            return rng.integers(0, VOCABULARY, self.shape)
        return rng.standard_normal(self.shape, np.float32)


def _bert(batch: int, length: int) -> Callable[[], onnx.ModelProto]:
    return lambda: models.bert(layers=12, length=length, batch=batch, vocabulary=VOCABULARY)


def cases(batch: int = 8, image: int = 224) -> dict[str, Case]:
    """Cases by name; images of `image` pixels a side."""
    shape = (batch, 3, image, image)
    text = f"N{batch} {image}x{image} int8"
    found = {
        "vit": Case(f"ViT-B/16 {text}", "vit", lambda: models.vit(image=image, batch=batch), shape),
        "convnext": Case(
            f"ConvNeXt-Tiny {text}", "convnext",
            lambda: models.convnext(image=image, batch=batch), shape,
        ),
        "densenet": Case(
            f"DenseNet-121 {text}", "densenet",
            lambda: models.densenet(image=image, batch=batch), shape,
        ),
    }  # fmt: skip
    for length in (128, 384):
        found[f"bert{length}"] = Case(
            f"BERT-base N{batch} length {length} int8", "bert", _bert(batch, length),
            (batch, length),
        )  # fmt: skip
    for length in (16, 128):
        found[f"bert{length}_4bit"] = Case(
            f"BERT-base N1 length {length} f16, 4-bit weights", "bert", _bert(1, length),
            (1, length), "4bit",
        )  # fmt: skip
    return found


def made(case: Case, name: str, folder: Path) -> Path:
    """The path of a case's model, written unless it is there."""
    path = folder / f"{name}.onnx"
    if path.exists():
        return path
    logging.disable(logging.WARNING)  # quantize_static warns of every weight with one axis
    model = case.make()
    unfinished = folder / f"{name}.unfinished.onnx"
    if case.form == "int8":
        plain = folder / f"{name}.float32.onnx"
        onnx.save(model, str(plain))
        quantize(plain, {"input": case.feed(CALIBRATION_SEED)}, unfinished)
        plain.unlink()
    else:
        onnx.save(to_float16(to_matmul_nbits(model)), str(unfinished))
    unfinished.rename(path)
    return path


def expected(case: Case, path: Path) -> tuple[np.ndarray, float]:
    """What onnxruntime's plain float32 operators make of the case's feed, and its own error.

    That is the mean difference to what its kernels of integers make of it, in units of the root
    mean square: roundings that fall the other way spread over the layers of random weights.
    """
    kept = path.with_suffix(".expected.npz")
    if not kept.exists():
        feeds = {"input": case.feed(FEED_SEED)}
        plain, fast = (
            onnxruntime_session(path, os.cpu_count() or 1, optimised).run(None, feeds)[0]
            for optimised in (False, True)
        )
        spread = np.sqrt((plain.astype(np.float64) ** 2).mean())
        own = np.abs(fast.astype(np.float64) - plain).mean() / spread
        np.savez(kept, plain=plain, own=own)
    arrays = np.load(kept)
    return arrays["plain"], float(arrays["own"])
