"""What onnxruntime's optimiser writes for transformers: com.microsoft's fused operators."""

from __future__ import annotations

import math

import numpy as np

from autoq.frontend.builder import GraphBuilder
from autoq.frontend.operators.arithmetic import emit_gelu
from autoq.frontend.operators.key_value_cache import cut
from autoq.frontend.operators.linear import emit_matmul
from autoq.frontend.operators.normalisation import emit_layer_norm, emit_rms_norm
from autoq.frontend.operators.selection import integers
from autoq.frontend.registry import OnnxNode, importer

MICROSOFT = "com.microsoft"


def _number(b: GraphBuilder, value: float) -> str:
    return b.add_constant(np.float32(value))


def _added(b: GraphBuilder, x: str, other: str | None) -> str:
    return x if other is None else b.emit("Add", [x, other])


@importer("BiasGelu", "FastGelu", domain=MICROSOFT)
def gelu_of_sum(node: OnnxNode, b: GraphBuilder) -> str:
    """Gelu of a sum with a bias, FastGelu by tanh."""
    x = _added(b, node.required(0, b), node.input(1))
    return emit_gelu(b, x, node.op == "FastGelu")


@importer("QuickGelu", domain=MICROSOFT)
def quick_gelu(node: OnnxNode, b: GraphBuilder) -> str:
    """`x sigmoid(alpha x)`."""
    x = node.required(0, b)
    alpha = float(node.attributes.get("alpha", 1.702))
    share = b.emit("Sigmoid", [b.emit("Mul", [x, _number(b, alpha)])])
    return b.emit("Mul", [x, share])


@importer("FusedMatMul", domain=MICROSOFT)
def fused_matmul(node: OnnxNode, b: GraphBuilder) -> str:
    """A product of matrices that may be transposed, times a number."""
    factors = [node.required(0, b), node.required(1, b)]
    for index, side in enumerate("AB"):
        rank = len(b.shape(factors[index]))
        if node.flag(f"transBatch{side}", b):
            raise b.error(f"transBatch{side}; transpose axes of batches in front of it")
        if node.flag(f"trans{side}", b) and rank > 1:
            perm = (*range(rank - 2), rank - 1, rank - 2)
            factors[index] = b.emit("Transpose", [factors[index]], perm=perm)
    y = emit_matmul(b, *factors)
    alpha = float(node.attributes.get("alpha", 1.0))
    return y if alpha == 1.0 else b.emit("Mul", [y, _number(b, alpha)])


@importer("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(node: OnnxNode, b: GraphBuilder) -> list[str]:
    """A normalisation of the sum of two tensors and a bias; the fourth output is the sum."""
    total = _added(b, _skipped(node, b), node.input(4))
    last = (len(b.shape(total)) - 1,)
    epsilon = float(node.attributes.get("epsilon", 1e-12))
    y = emit_layer_norm(b, total, last, node.required(2, b), node.input(3), epsilon)
    return [*y, total]


@importer("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_rms_normalization(node: OnnxNode, b: GraphBuilder) -> list[str]:
    """A normalisation by the root mean square of the sum of two tensors and a bias.

    The second output, a mean, is never written by onnxruntime.
    """
    if len(node.outputs) > 1 and node.outputs[1] in b.used:
        raise b.error(f"output {node.outputs[1]!r}, a mean that nothing computes, is read")
    total = _added(b, _skipped(node, b), node.input(3))
    last = (len(b.shape(total)) - 1,)
    epsilon = float(node.attributes.get("epsilon", 1e-12))
    y, inverse = emit_rms_norm(b, total, last, node.required(2, b), epsilon)
    return [y, y, inverse, total]


def _skipped(node: OnnxNode, b: GraphBuilder) -> str:
    """The sum of an input and its skip, which has its shape or is one for a whole batch."""
    x, skip = node.required(0, b), node.required(1, b)
    total = b.emit("Add", [x, skip])
    if b.shape(total) != b.shape(x):
        raise b.error(f"a skip of {list(b.shape(skip))} beside an input of {list(b.shape(x))}")
    return total


@importer("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_normalization(node: OnnxNode, b: GraphBuilder) -> list[str]:
    """The sum of the rows of tokens, places and segments in their tables, normalised."""
    tokens = integers(b, node.required(0, b))
    length = b.shape(tokens)[1]
    total = b.emit("Gather", [node.required(2, b), tokens], "float32", axis=0)
    given = node.input(8)
    places = (
        integers(b, given) if given else b.add_constant(np.arange(length, dtype=np.int32)[None])
    )
    total = b.emit("Add", [total, b.emit("Gather", [node.required(3, b), places], axis=0)])
    if node.input(1) is not None:
        segments = integers(b, node.required(1, b))
        found = b.emit("Gather", [node.required(4, b), segments], "float32", axis=0)
        total = b.emit("Add", [total, found])
    epsilon = float(node.attributes.get("epsilon", 1e-12))
    scale, bias = node.required(5, b), node.required(6, b)
    y = emit_layer_norm(b, total, (2,), scale, bias, epsilon)[0]
    if len(node.outputs) < 2 or node.outputs[1] not in b.used:
        return [y]
    if node.input(7) is None:
        return [y, b.add_constant(np.zeros(b.shape(tokens)[:1], np.int32)), total]
    lengths = b.emit("ReduceSum", [node.required(7, b)], axes=(1,))
    return [y, b.emit("Reshape", [lengths], shape=b.shape(tokens)[:1]), total]


@importer("Attention", domain=MICROSOFT)
def attention(node: OnnxNode, b: GraphBuilder) -> list[str]:
    """Queries, keys and values of one tensor [batch, length, size] by a product, and attention.

    Keys and values of earlier tokens [2, batch, heads, past, size] stand before the new ones, and
    all of them are the second output.
    """
    _refuse(node, b, {6: "past_sequence_length"}, ("do_rotary", "past_present_share_buffer"))
    x, weight = node.required(0, b), node.required(1, b)
    sizes = list(node.attributes.get("qkv_hidden_sizes", (b.shape(weight)[-1] // 3,) * 3))
    projected = _added(b, emit_matmul(b, x, weight), node.input(2))
    ends = np.cumsum([0, *sizes]).tolist()
    parts = [_columns(b, projected, *ends[i : i + 2]) for i in range(3)]
    past: list[str | None] = [None, None]
    kept = node.input(4)
    if kept is not None:
        shape = b.shape(kept)[1:]
        past = [b.emit("Reshape", [cut(b, kept, 0, i, i + 1)], shape=shape) for i in range(2)]
    y, *caches = _attention(node, b, parts, past, node.input(3), node.input(5))
    if len(node.outputs) < 2 or node.outputs[1] not in b.used:
        return [y]
    wide = [b.emit("Reshape", [part], shape=(1, *b.shape(part))) for part in caches]
    return [y, b.emit("Concat", wide, axis=0)]


@importer("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(node: OnnxNode, b: GraphBuilder) -> list[str]:
    """Attention of queries, keys and values [batch, length, size], to which a bias is added.

    Keys and values may be [batch, heads, length, size] too, and those of earlier tokens stand
    before them; the further outputs are all of them.
    """
    _refuse(node, b, {8: "past_sequence_length", 9: "cache_indirection"}, ())
    parts = [node.required(index, b) for index in range(3)]
    if len(b.shape(parts[0])) != 3 or len({len(b.shape(part)) for part in parts[1:]}) > 1:
        raise b.error("packed queries, keys and values; give each as [batch, length, size]")
    bias = node.input(3)
    if bias is not None:
        sizes = [_width(b, part) for part in parts]
        ends = np.cumsum([0, *sizes]).tolist()
        biases = [_columns(b, bias, *ends[i : i + 2]) for i in range(3)]
        count = 3 if len(b.shape(parts[1])) == 3 else 1  # keys with heads have theirs
        for i in range(count):
            parts[i] = b.emit("Add", [parts[i], biases[i]])
    past = [node.input(6), node.input(7)]
    return _attention(node, b, parts, past, node.input(4), node.input(5))


def _width(b: GraphBuilder, part: str) -> int:
    """Columns of a tensor of tokens, whether its heads are apart or not."""
    shape = b.shape(part)
    return shape[-1] if len(shape) == 3 else shape[1] * shape[3]


def _refuse(
    node: OnnxNode, b: GraphBuilder, inputs: dict[int, str], flags: tuple[str, ...]
) -> None:  # fmt: skip
    """Raise ModelError for inputs that are given, and for flags that are set."""
    for index, name in inputs.items():
        if node.input(index) is not None:
            raise b.error(f"{name}; export with caches of keys and values that grow by a step")
    for name in flags:
        if node.flag(name, b):
            raise b.error(f"{name}; export without it")


def _columns(b: GraphBuilder, x: str, start: int, end: int) -> str:
    """Some of the last axis of a tensor."""
    shape = b.shape(x)
    if x in b.graph.constants:
        return b.add_constant(b.graph.constants[x][..., start:end])
    starts, ends = (*(0 for _ in shape[:-1]), start), (*shape[:-1], end)
    return b.emit("Slice", [x], starts=starts, ends=ends, steps=(1,) * len(shape))


def _heads(b: GraphBuilder, x: str, heads: int) -> str:
    """[batch, heads, length, size] of a tensor of tokens."""
    if len(b.shape(x)) == 4:
        return x
    batch, length, size = b.shape(x)
    if heads < 1 or size % heads:
        raise b.error(f"{size} columns in {heads} heads")
    apart = b.emit("Reshape", [x], shape=(batch, length, heads, size // heads))
    return b.emit("Transpose", [apart], perm=(0, 2, 1, 3))


def _attention(
    node: OnnxNode, b: GraphBuilder, parts: list[str], past: list[str | None], mask: str | None,
    bias: str | None,
) -> list[str]:  # fmt: skip
    """softmax(q k scale + masks) v, heads side by side; all keys and all values."""
    heads = int(node.attributes["num_heads"])
    query, keys, values = (_heads(b, part, heads) for part in parts)
    if past[0] is not None and past[1] is not None:
        keys = b.emit("Concat", [past[0], keys], axis=2)
        values = b.emit("Concat", [past[1], values], axis=2)
    key = b.emit("Transpose", [keys], perm=(0, 1, 3, 2))
    batch, _, rows, size = b.shape(query)
    columns = b.shape(key)[-1]
    scale = float(node.attributes.get("scale", 0.0)) or 1 / math.sqrt(size)
    scores = b.emit("Mul", [b.emit("MatMul", [query, key], "float32"), _number(b, scale)])
    if mask is not None:
        scores = b.emit("Add", [scores, _filter(node, b, mask, (batch, rows, columns))])
    scores = _added(b, scores, bias)
    if node.flag("unidirectional", b):
        seen = np.tri(rows, columns, columns - rows, dtype=np.float32)
        least = _number(b, float(np.finfo(np.float32).min))
        scores = b.emit("Where", [b.add_constant(seen), scores, least], "float32")
    y = b.emit("MatMul", [b.emit("Softmax", [scores], axis=3), values], "float32")
    turned = b.emit("Transpose", [y], perm=(0, 2, 1, 3))
    width = heads * b.shape(values)[-1]
    return [b.emit("Reshape", [turned], shape=(batch, rows, width)), keys, values]


def _filter(node: OnnxNode, b: GraphBuilder, mask: str, extents: tuple[int, int, int]) -> str:
    """0 for what is attended to and the filter's value for the rest, from a mask of integers.

    A mask has a number for each key, or for each query and key, not 0 for those that count, or
    says for each sequence how many of its keys count.
    """
    batch, rows, columns = extents
    shape = b.shape(mask)
    if b.dtype(mask) != "int32":
        raise b.error(f"a mask of {b.dtype(mask)}; int32 is supported")
    zero = b.add_constant(np.int32(0))
    if shape == (batch,):
        lengths = b.emit("Reshape", [mask], shape=(batch, 1, 1, 1))
        places = b.add_constant(np.arange(columns, dtype=np.int32))
        counted = b.emit("Greater", [lengths, places], "float32")
    elif shape in ((batch, columns), (batch, rows, columns)):
        apart = (batch, 1, rows if len(shape) == 3 else 1, columns)
        wide = b.emit("Reshape", [mask], shape=apart)
        counted = b.emit("Greater", [wide, zero], "float32")
    else:
        raise b.error(
            f"a mask {list(shape)}; {[batch]}, {[batch, columns]} and {[batch, rows, columns]} are "
            "supported"
        )
    low = _number(b, float(node.attributes.get("mask_filter_value", -10000.0)))
    return b.emit("Where", [counted, _number(b, 0.0), low], "float32")
