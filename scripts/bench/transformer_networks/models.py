"""ONNX models of random weights for `bench_transformers.py`, with feeds and what they should give.

Models with bytes come from onnxruntime's quantize_static, in QDQ form, of every operator that it
quantises. Those with weights of 4 bits are float16, their products MatMulNBits in groups of 32;
those of the form float16 are so altogether, and those of the form dynamic are quantize_dynamic's,
whose activations are quantised as they come. Pruned ones lose weights before they are quantised,
every layer as many as the others.
"""

from __future__ import annotations

import logging
import math
import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import onnx
from bench_cpu_models import onnxruntime_session
from onnx import helper, numpy_helper
from onnxruntime.quantization import quantize_dynamic

from autoq import models
from autoq.models.weight_only import to_float16, to_matmul_nbits
from autoq.pruning.model import PruneOptions, prune
from autoq.pruning.pattern import Pattern
from autoq.pruning.ranking import Bounds
from autoq.quantization.quantize import quantize

VOCABULARY = 30522
_BYTES = (onnx.TensorProto.INT8, onnx.TensorProto.UINT8)
_LARGE = 4096
"""Elements of an array that a skeleton leaves out."""
_PRUNED = 0.25
"""Share of zeros from which on a skeleton says where they are."""
_SPARSITY = 0.75
CALIBRATION_SEED, FEED_SEED = 0, 1


@dataclass(frozen=True)
class Case:
    """A network for one batch: how results name it, its float32 model, its input and its form.

    network is a name of `in_torch.NETWORKS`, and arguments are those of its maker there. pruned is
    the pattern of its weights, of which `skip` are left alone; joint_channels, shared_rows,
    columns and layer_bounds are those of `PruneOptions`.
    """

    title: str
    network: str
    make: Callable[[], onnx.ModelProto]
    shape: tuple[int, ...]
    form: str = "int8"
    pruned: Pattern | None = None
    skip: tuple[str, ...] = ()
    joint_channels: bool = False
    shared_rows: bool = False
    columns: float = 0.5
    layer_bounds: Mapping[str, Bounds] = field(default_factory=dict)

    @property
    def tokens(self) -> bool:
        """Whether the input is one of tokens."""
        return len(self.shape) == 2

    def feed(self, seed: int) -> np.ndarray:
        """Normal numbers, or tokens."""
        rng = np.random.default_rng(seed)
        if self.tokens:
            return rng.integers(0, VOCABULARY, self.shape)
        image = rng.standard_normal(self.shape, np.float32)
        return image.astype(np.float16) if self.form == "float16" else image


def _bert(batch: int, length: int) -> Callable[[], onnx.ModelProto]:
    return lambda: models.bert(layers=12, length=length, batch=batch, vocabulary=VOCABULARY)


def _pruned(case: Case, pattern: Pattern) -> Case:
    return replace(case, title=f"{case.title}, {pattern} {_SPARSITY}", pruned=pattern)


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
    found["resnet50_float16"] = Case(
        f"ResNet-50 N{batch} {image}x{image} f16", "resnet50",
        lambda: models.resnet(50, image=image, batch=batch), shape, "float16",
    )  # fmt: skip
    for length in (128, 384):
        found[f"bert{length}"] = Case(
            f"BERT-base N{batch} length {length} int8", "bert", _bert(batch, length),
            (batch, length),
        )  # fmt: skip
    resnet = Case(
        "ResNet-50 N128 224x224 int8", "resnet50", lambda: models.resnet(50, batch=128),
        (128, 3, 224, 224), skip=("conv1", "fc"),
    )  # fmt: skip
    found["resnet50"] = resnet
    found["resnet50_pruned"] = _pruned(resnet, Pattern.make("tw", 64))
    found["bert384_pruned"] = _pruned(found["bert384"], Pattern.make("tvw", 128))
    for name in ("resnet50_pruned", "bert384_pruned"):
        title = f"{found[name].title}, joint channels"
        found[f"{name}_joint"] = replace(found[name], title=title, joint_channels=True)
    for kind in ("tvw", "tw"):
        case = _pruned(found["bert384"], Pattern.make(kind, 128))
        title = f"{case.title}, joint channels, shared rows"
        found[f"bert384_{kind}_shared"] = replace(
            case, title=title, joint_channels=True, shared_rows=True
        )
        title = f"{case.title}, whole channels alone"
        found[f"bert384_{kind}_channels"] = replace(
            case, title=title, joint_channels=True, columns=1.0
        )
    # 5 heads of 12 are as many pairs with a batch of 8 as attention has blocks for in one round.
    heads, hidden = 1 - 5 / 12 / 2, 1 - 13 / 24 / 2
    found["bert384_tvw_heads"] = replace(
        found["bert384_tvw_channels"],
        title=f"{found['bert384_tvw_channels'].title}, 5 heads",
        layer_bounds={
            "*.attention.*": Bounds(heads, heads), "*.expand": Bounds(hidden, hidden),
            "*.contract": Bounds(hidden, hidden),
        },
    )  # fmt: skip
    found["bert128_dynamic"] = Case(
        f"BERT-base N{batch} length 128 quantize_dynamic", "bert", _bert(batch, 128),
        (batch, 128), "dynamic",
    )  # fmt: skip
    for length in (16, 128):
        found[f"bert{length}_4bit"] = Case(
            f"BERT-base N1 length {length} f16, 4-bit weights", "bert", _bert(1, length),
            (1, length), "4bit",
        )  # fmt: skip
    return found


def made(case: Case, name: str, folder: Path) -> Path:
    """The path of a case's model, written unless it is there.

    One of bytes is written from its skeleton `<name>.skeleton.onnx`, which is quantised first
    unless that is there: a small file that other machines can be given.
    """
    path = folder / f"{name}.onnx"
    if path.exists():
        return path
    unfinished = folder / f"{name}.unfinished.onnx"
    if case.form == "int8":
        skeleton = folder / f"{name}.skeleton.onnx"
        if not skeleton.exists():
            onnx.save(_without_weights(_quantised(case, folder / f"{name}.float32.onnx")), skeleton)
        onnx.save(_with_weights(onnx.load(skeleton)), unfinished)
    elif case.form == "dynamic":
        plain = folder / f"{name}.float32.onnx"
        onnx.save(case.make(), plain)
        quantize_dynamic(plain, unfinished)
        plain.unlink()
    elif case.form == "float16":
        onnx.save(to_float16(case.make()), unfinished)
    else:
        onnx.save(to_float16(to_matmul_nbits(case.make())), unfinished)
    unfinished.rename(path)
    return path


def _quantised(case: Case, plain: Path) -> onnx.ModelProto:
    """The float32 model, for which `plain` is room, as quantize_static makes it."""
    logging.disable(logging.WARNING)  # quantize_static warns of every weight with one axis
    onnx.save(case.make(), str(plain))
    finished = plain.with_suffix(".int8.onnx")
    if case.pruned is not None:
        whole = plain.rename(plain.with_suffix(".whole.onnx"))
        alike = PruneOptions(
            bounds=Bounds(_SPARSITY, _SPARSITY), skip=case.skip,
            joint_channels=case.joint_channels, shared_rows=case.shared_rows,
            columns=case.columns, layer_bounds=case.layer_bounds,
        )  # fmt: skip
        prune(whole, plain, case.pruned, _SPARSITY, alike)
        whole.unlink()
    quantize(plain, {"input": case.feed(CALIBRATION_SEED)}, finished)
    model = onnx.load(finished)
    plain.unlink()
    finished.unlink()
    return model


def _without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model, changed: of large arrays of bytes the mean and the deviation are left.

    Of pruned ones these are of what is not 0, and the data say, compressed, where that is.
    """
    for tensor in model.graph.initializer:
        if tensor.data_type in _BYTES and math.prod(tensor.dims) >= _LARGE:
            array = numpy_helper.to_array(tensor)
            kept = array != 0
            tensor.ClearField("raw_data")
            if kept.mean() < 1 - _PRUNED:
                tensor.raw_data = zlib.compress(np.packbits(kept).tobytes(), 9)
                array = array[kept]
            tensor.doc_string = f"{array.mean():.6f} {array.std():.6f}"
    return model


def _with_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model, changed: random normal numbers where a skeleton has none, the same ones always."""
    for tensor in model.graph.initializer:
        if tensor.data_type not in _BYTES or math.prod(tensor.dims) < _LARGE:
            continue
        mean, deviation = map(float, tensor.doc_string.split())
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
        limits = np.iinfo(dtype)
        rng = np.random.default_rng(zlib.crc32(tensor.name.encode()))
        values = mean + deviation * rng.standard_normal(tuple(tensor.dims), np.float32)
        array = np.clip(np.rint(values), max(limits.min, -127), limits.max).astype(dtype)
        if tensor.raw_data:
            bits = np.frombuffer(zlib.decompress(tensor.raw_data), np.uint8)
            kept = np.unpackbits(bits, count=array.size).reshape(array.shape).astype(bool)
            array = np.where(kept, np.where(array == 0, 1, array), 0).astype(dtype)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return model


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
