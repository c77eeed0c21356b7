"""Fusions that `bench_movement.py` times: element-wise, over rows, and transpositions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autoq.graph import Fusion, Primitive

BATCH = 8
GLOBAL_POOLS = ((112, 32), (56, 96), (56, 144), (28, 144), (28, 240), (14, 240), (14, 480),
                (14, 672), (7, 672), (7, 1152), (7, 1280), (7, 1024))  # fmt: skip
"""Height and width, and channels, of what EfficientNet-B0 and ShuffleNet-V2 average."""
_BYTES = {"scale": 0.013, "zero_point": -5, "low": -123.0, "high": 132.0}
"""The scheme of an int8 output."""
_IMAGE, _TOKENS = (BATCH, 56, 56, 64), (BATCH, 197, 768)


def fusions() -> Iterator[Fusion]:
    """All of them."""
    yield from _element_wise()
    yield from _softmaxes()
    yield from _over_tokens()
    yield from _transpositions()


def _element_wise() -> Iterator[Fusion]:
    """Gates of squeeze and excitation, sums of two schemes, float32."""
    for op, shapes in _pairs():
        primitives = (
            _primitive("dequantize", 0, scale=0.02, zero_point=3),
            _primitive("dequantize", 1, scale=0.0117, zero_point=100),
            _primitive(op, 2, 3),
            _primitive("quantize", 4, dtype="int8", **_BYTES),
        )
        yield _operator(primitives, shapes, ("int8", "uint8"))
    mixed = (
        _primitive("dequantize", 0, scale=0.05, zero_point=3),
        _primitive("Add", 2, 1),
        _primitive("Relu", 3),
    )
    yield _operator(mixed, (_IMAGE, _IMAGE), ("int8", "float32"))
    yield _operator((_primitive("HardSwish", 0),), (_IMAGE,))
    yield _operator((_primitive("Sigmoid", 0), _primitive("Mul", 0, 1)), (_IMAGE,))
    yield _operator((_primitive("Add", 0, 1),), (_TOKENS, (768,)))


def _pairs() -> Iterator[tuple[str, tuple[tuple[int, ...], ...]]]:
    for size, c in GLOBAL_POOLS[:10]:
        yield "Mul", ((BATCH, size, size, c), (BATCH, 1, 1, c))
    for size, c in ((56, 256), (14, 1024)):
        yield "Add", ((BATCH, size, size, c),) * 2


def _softmaxes() -> Iterator[Fusion]:
    """Of classes, of the scores of attention, and of windows of 49 pixels."""
    rows = ((BATCH, 1000), (BATCH, 12, 197, 197), (BATCH, 12, 128, 128), (BATCH, 12, 384, 384),
            (64, 4, 49, 49), (64, 4096))  # fmt: skip
    for shape in rows:
        yield _operator((_primitive("Softmax", 0, axis=len(shape) - 1),), (shape,))
    scores = rows[1]
    probabilities = {"scale": 1 / 255, "zero_point": 0, "low": 0.0, "high": 255.0}
    primitives = (
        _primitive("dequantize", 0, scale=0.05, zero_point=3),
        _primitive("Softmax", 1, axis=3),
        _primitive("quantize", 2, dtype="uint8", **probabilities),
    )
    yield _operator(primitives, (scores,), ("int8",))


def _over_tokens() -> Iterator[Fusion]:
    """Means and normalisations of the channels of transformers' tokens."""
    for tokens in (_TOKENS, (BATCH, 3136, 96), (BATCH, 49, 1024)):
        mean = _primitive("ReduceMean", 0, axes=(2,))
        yield _operator((mean,), (tokens,), output=(*tokens[:2], 1))
    for tokens in (_TOKENS, (BATCH, 3136, 96), (BATCH, 128, 768), (BATCH, 49, 768), (2, 197, 1023)):
        yield _normalisation(tokens, quantised=True)
    yield _normalisation(_TOKENS, quantised=False)


def _normalisation(tokens: tuple[int, ...], quantised: bool) -> Fusion:
    """Of bytes to bytes or of float32, with a scale and a shift of each channel."""
    start = (
        _primitive("dequantize", 0, scale=0.02, zero_point=3)
        if quantised
        else _primitive("Identity", 0)
    )
    centred = _primitive("ReduceMean", 3, axes=(2,)), _primitive("Sub", 3, 4)
    spread = _primitive("Mul", 5, 5), _primitive("ReduceMean", 6, axes=(2,)), _primitive("Sqrt", 7)
    scaled = _primitive("Div", 5, 8), _primitive("Mul", 9, 1), _primitive("Add", 10, 2)
    end = (_primitive("quantize", 11, dtype="int8", **_BYTES),) if quantised else ()
    shapes = tokens, tokens[-1:], tokens[-1:]
    dtypes = "int8" if quantised else "float32", "float32", "float32"
    return _operator((start, *centred, *spread, *scaled, *end), shapes, dtypes)


def _transpositions() -> Iterator[Fusion]:
    """Between ONNX's order of an image and ours, and of attention's heads."""
    to_onnx, from_onnx, sizes = (0, 3, 1, 2), (0, 2, 3, 1), ((56, 64), (28, 256), (7, 2048))
    for size, c in (*sizes, (224, 3)):
        yield _transposition((BATCH, size, size, c), to_onnx, "int8")
        yield _transposition((BATCH, c, size, size), from_onnx, "int8")
    for size, c in ((56, 64), (224, 3)):
        yield _transposition((BATCH, size, size, c), to_onnx, "float32")
        yield _transposition((BATCH, c, size, size), from_onnx, "float32")
    heads = (BATCH, 197, 12, 64)
    yield _transposition(heads, (0, 2, 1, 3), "int8")
    yield _transposition(heads, (0, 2, 3, 1), "float32")


def _transposition(shape: tuple[int, ...], perm: tuple[int, ...], dtype: str) -> Fusion:
    output = tuple(shape[axis] for axis in perm)
    primitive = _primitive("Transpose", 0, dtype=dtype, perm=perm)
    return _operator((primitive,), (shape,), (dtype,), output)


def _primitive(op: str, *arguments: int, dtype: str = "float32", **attributes: object) -> Primitive:
    return Primitive(op, arguments, dtype, tuple(sorted(attributes.items())))


def _operator(
    primitives: tuple[Primitive, ...], shapes: Sequence[tuple[int, ...]],
    dtypes: Sequence[str] = (),
    output: tuple[int, ...] | None = None,
) -> Fusion:  # fmt: skip
    """Of float32 if no dtypes are given, with an output like the first input unless one is."""
    names = tuple(f"x{index}" for index in range(len(shapes)))
    types = tuple(dtypes) or ("float32",) * len(shapes)
    return Fusion(primitives, names, tuple(shapes), types, (), "y", output or shapes[0], ("node",))
