"""Small networks, quantised ones cached in a temporary folder."""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

import autoq.models
import autoq.quantization.quantize
from autoq.models import resnet
from autoq.quantization.four_bits import to_four_bits
from autoq.quantization.quantize import quantize

LIGHT_FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
LIGHT = tuple(sorted(path.stem.removeprefix("light_") for path in LIGHT_FOLDER.glob("*.onnx")))
"""Names of the network structures that the onnx package carries."""

FORMS = ("float32", "QDQ", "QOperator")


@functools.cache
def cache_folder() -> Path:
    """A folder of this user's that outlives one test run."""
    folder = Path(tempfile.gettempdir()) / f"autoq-test-models-{os.getuid()}-{onnx.__version__}"
    folder.mkdir(exist_ok=True)
    return folder


def resnet_path(
    depth: int, form: str, image: int = 64, batch: int = 1, activation: str = "uint8"
) -> Path:
    """A ResNet with random weights in one of FORMS."""
    name = f"resnet{depth}-{image}-{batch}"
    return _cached(name, lambda: resnet(depth, image, batch), form, activation)


def four_bit_resnet(depth: int, image: int = 64, activation: str = "uint8") -> onnx.ModelProto:
    """A ResNet with random weights whose inner layers are of 4 bits."""
    return to_four_bits(onnx.load(resnet_path(depth, "QDQ", image, activation=activation)))


def four_bit_resnet_path(depth: int, image: int = 64, activation: str = "uint8") -> Path:
    """A file of `four_bit_resnet`, written anew each time."""
    path = cache_folder() / f"resnet{depth}-{image}-{activation}-4-bit.onnx"
    temporary = path.with_suffix(f".{os.getpid()}")
    onnx.save(four_bit_resnet(depth, image, activation), temporary)
    os.replace(temporary, path)
    return path


def light_path(
    name: str, form: str, activation: str = "uint8", per_channel: bool = True,
    logits: bool = False,
) -> Path:  # fmt: skip
    """A `light_*` model of the onnx package with random weights, in one of FORMS.

    logits leaves the softmax at the end out: its outputs, most of them near 0, hide errors.
    """
    make = functools.partial(randomised_light, name, logits=logits)
    title = f"light-{name}-logits" if logits else f"light-{name}"
    return _cached(title, make, form, activation, per_channel)


def _cached(
    name: str, make: Callable[[], onnx.ModelProto], form: str, activation: str,
    per_channel: bool = True,
) -> Path:  # fmt: skip
    networks = sorted(Path(autoq.models.__file__).parent.glob("*.py"))
    sources = (Path(__file__), *networks, Path(autoq.quantization.quantize.__file__))
    content = b"".join(source.read_bytes() for source in sources)
    digest = hashlib.sha256(content + onnxruntime.__version__.encode()).hexdigest()[:8]
    folder = cache_folder()
    suffix = form if form == "float32" else f"{form}-{activation}{'' if per_channel else '-tensor'}"
    path = folder / f"{name}-{digest}-{suffix}.onnx"
    if path.exists():
        return path
    for stale in folder.glob(f"{name}-*.onnx"):  # of older sources; some are 500 MB large
        if digest not in stale.name:
            stale.unlink(missing_ok=True)
    plain = folder / f"{name}-{digest}-float32.onnx"
    if not plain.exists():
        temporary = plain.with_suffix(f".{os.getpid()}")
        onnx.save(make(), temporary)
        os.replace(temporary, plain)
    if form != "float32":
        quantize(plain, None, path, per_channel, activation, form, fuse=False)
    return path


def randomised_light(
    name: str, seed: int = 0, logits: bool = False, rescaled: bool = True
) -> onnx.ModelProto:
    """A light model whose ConstantOfShape weights are replaced by He-scaled random ones.

    logits drops a softmax at the end. What is not to be run need not be rescaled, which takes a run
    by onnxruntime.
    """
    model = onnx.load(LIGHT_FOLDER / f"light_{name}.onnx")
    graph = model.graph
    rng = np.random.default_rng(seed)
    sizes = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    roles = _roles(graph)
    kept, made, used_shapes = [], [], set()
    for node in graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        used_shapes.add(node.input[0])
        shape = tuple(int(size) for size in sizes[node.input[0]])
        value = _random(rng, shape, roles.get(node.output[0], "weight"))
        made.append(numpy_helper.from_array(value, node.output[0]))
    initializers = [t for t in graph.initializer if t.name not in used_shapes]
    inputs = [value for value in graph.input if value.name not in sizes]
    del graph.node[:], graph.initializer[:], graph.input[:]
    graph.node.extend(kept)
    graph.initializer.extend([*initializers, *made])
    graph.input.extend(inputs)
    model.ir_version = 4  # initializers that are no inputs
    if rescaled:
        _rescale_logits(model, widen=logits)
    if logits and graph.node[-1].op_type == "Softmax":
        graph.output[0].name = graph.node.pop().input[0]
        graph.output[0].type.tensor_type.ClearField("shape")
    return onnx.shape_inference.infer_shapes(model)


def _rescale_logits(model: onnx.ModelProto, widen: bool) -> None:
    """Scale the last layer's weights until its outputs have a spread of 2.

    Otherwise a softmax saturates, and every wrong network would give the right output. `widen`
    adds a larger bias, which widens the output's quantisation step as in `autoq.models`.
    """
    graph = model.graph
    last = [node for node in graph.node if node.op_type in ("Gemm", "Conv")][-1]
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    probe.graph.output.append(onnx.ValueInfoProto(name=last.output[0]))
    session = onnxruntime.InferenceSession(probe.SerializeToString())
    names = [value.name for value in session.get_inputs()]
    shapes = {value.name: value.shape for value in session.get_inputs()}
    rng = np.random.default_rng(1)
    feeds = {name: rng.standard_normal(shapes[name], np.float32) for name in names}
    spread = float(np.std(session.run([last.output[0]], feeds)[0]))
    for tensor in graph.initializer:
        if tensor.name == last.input[1]:
            value = numpy_helper.to_array(tensor) * np.float32(2.0 / spread)
        elif widen and tensor.name == last.input[2]:
            value = rng.normal(0, 3, tuple(tensor.dims)).astype(np.float32)
        else:
            continue
        tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))


def _roles(graph: onnx.GraphProto) -> dict[str, str]:
    """What each constant is for, by the input it feeds (through an Unsqueeze too)."""
    roles = {}
    aliases = {n.output[0]: n.input[0] for n in graph.node if n.op_type == "Unsqueeze"}
    names = {
        "BatchNormalization": ("x", "scale", "bias", "bias", "scale"),
        "Conv": ("x", "weight", "bias"),
        "Gemm": ("x", "weight", "bias"),
        "Mul": ("scale", "scale"),
        "Add": ("bias", "bias"),
    }
    for node in graph.node:
        for role, name in zip(names.get(node.op_type, ()), node.input, strict=False):
            roles[aliases.get(name, name)] = role
    return roles


def _random(rng: np.random.Generator, shape: tuple[int, ...], role: str) -> np.ndarray:
    if role == "scale":
        return rng.uniform(0.7, 1.3, shape).astype(np.float32)
    if role == "bias":
        return rng.normal(0, 0.1, shape).astype(np.float32)
    fan_in = int(np.prod(shape[1:])) if len(shape) > 1 else 1
    if len(shape) == 2:
        fan_in = max(shape)
    return rng.standard_normal(shape, np.float32) * np.float32((2.0 / fan_in) ** 0.5)
