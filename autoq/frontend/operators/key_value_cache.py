"""com.microsoft's operators of decoders: rotary embeddings, and queries that share keys of a cache.

How onnxruntime computes them on a CPU is the meaning; sizes of caches are those of the compiled
shapes, while how much of a cache counts is known in a run.
"""

from __future__ import annotations

import math

import numpy as np

from autoq.frontend.builder import GraphBuilder
from autoq.frontend.operators.linear import emit_matmul
from autoq.frontend.registry import OnnxNode, importer

MICROSOFT = "com.microsoft"
_LEAST = float(np.finfo(np.float32).min)


def cut(b: GraphBuilder, x: str, axis: int, start: int, end: int, step: int = 1) -> str:
    """Some of an axis of a tensor."""
    shape = b.shape(x)
    starts, ends, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], ends[axis], steps[axis] = start, end, step
    return b.emit("Slice", [x], starts=tuple(starts), ends=tuple(ends), steps=tuple(steps))


def _concatenated(b: GraphBuilder, parts: list[str], axis: int) -> str:
    return b.emit("Concat", parts, axis=axis)


@importer("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(node: OnnxNode, b: GraphBuilder) -> str:
    """Pairs of values of each head turned by the angle of their place."""
    x, places = node.required(0, b), node.required(1, b)
    cos, sin = node.required(2, b), node.required(3, b)
    for name in ("is_packed_batching",):
        if node.flag(name, b):
            raise b.error(f"{name}; export without it")
    if float(node.attributes.get("scale", 1.0)) != 1.0:
        raise b.error("a scale other than 1; multiply the caches of cosines and sines by it")
    shape = b.shape(x)
    batch, length = (shape[0], shape[1]) if len(shape) == 3 else (shape[0], shape[2])
    if b.shape(places) == (1,):
        steps = b.add_constant(np.arange(length, dtype=np.int32)[None])
        places = b.emit("Add", [steps, places])
    turns = b.shape(cos)[1]
    heads = _rotary_heads(node, b, shape, turns)
    by_heads = (batch, length, heads, shape[-1] // heads)
    apart = x if len(shape) == 4 else b.emit("Reshape", [x], shape=by_heads)
    middle = (batch, 1, length, turns) if len(shape) == 4 else (batch, length, 1, turns)
    factors = [_of_places(b, table, places, middle) for table in (cos, sin)]
    y = emit_rotary(b, apart, *factors, node.flag("interleaved", b))
    return y if len(shape) == 4 else b.emit("Reshape", [y], shape=shape)


def _rotary_heads(node: OnnxNode, b: GraphBuilder, shape: tuple[int, ...], turns: int) -> int:
    """Heads of an input [batch, length, size]."""
    heads = int(node.attributes.get("num_heads", 0)) or shape[-1] // (2 * turns)
    if len(shape) == 3 and (heads < 1 or shape[-1] % heads or shape[-1] // heads < 2 * turns):
        raise b.error(f"{shape[-1]} columns in {heads} heads, of which {2 * turns} are turned")
    return heads


def _of_places(b: GraphBuilder, table: str, places: str, shape: tuple[int, ...]) -> str:
    """Rows of a table [places, turns] in a shape that may lack the batch."""
    rows = b.emit("Gather", [table, places], "float32", axis=0)
    whole = math.prod(b.shape(rows)) == math.prod(shape)
    return b.emit("Reshape", [rows], shape=shape if whole else (1, *shape[1:]))


def emit_rotary(b: GraphBuilder, x: str, cos: str, sin: str, interleaved: bool) -> str:
    """`x` [..., size], whose first 2 * turns values are pairs; cos and sin [..., turns]."""
    last, size, turns = len(b.shape(x)) - 1, b.shape(x)[-1], b.shape(cos)[-1]
    if interleaved:
        first, second = (cut(b, x, last, at, 2 * turns, 2) for at in (0, 1))
    else:
        first, second = cut(b, x, last, 0, turns), cut(b, x, last, turns, 2 * turns)
    real = b.emit("Sub", [b.emit("Mul", [first, cos]), b.emit("Mul", [second, sin])])
    other = b.emit("Add", [b.emit("Mul", [first, sin]), b.emit("Mul", [second, cos])])
    parts = [real, other]
    if interleaved:
        shape = b.shape(real)
        pairs = [b.emit("Reshape", [part], shape=(*shape, 1)) for part in parts]
        both = _concatenated(b, pairs, last + 1)
        parts = [b.emit("Reshape", [both], shape=(*shape[:-1], 2 * turns))]
    if 2 * turns < size:
        parts.append(cut(b, x, last, 2 * turns, size))
    return _concatenated(b, parts, last) if len(parts) > 1 else parts[0]


_KNOWN_INPUTS = 9
_REFUSED = {"local_window_size": -1, "smooth_softmax": 0, "qk_output": 0, "k_quant_type": "NONE",
            "v_quant_type": "NONE"}  # fmt: skip


@importer("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(node: OnnxNode, b: GraphBuilder) -> list[str]:
    """Causal attention of new queries to a cache and new keys; the cache with these is given back.

    seqlens_k says for each sequence of the batch how many keys count, less one.
    """
    for name, usual in _REFUSED.items():
        given = node.attributes.get(name, usual)
        given = given.decode() if isinstance(given, bytes) else given
        if given not in (usual, 0 if usual == -1 else usual):
            raise b.error(f"{name} {given}; export without it")
    if any(name is not None for name in node.inputs[_KNOWN_INPUTS:]):
        raise b.error("position_ids, a bias or sinks; export without them")
    heads, shared = (int(node.attributes[name]) for name in ("num_heads", "kv_num_heads"))
    query, key, value = _parts(node, b, heads, shared)
    batch, _, length, size = b.shape(query)
    total = b.constant(node.required(6, b), "total_sequence_length").reshape(-1)
    past = [node.input(index) for index in (3, 4)]
    kept = 0 if past[0] is None else b.shape(past[0])[2]
    lengths = b.emit("Reshape", [node.required(5, b)], shape=(batch, 1))
    before = b.emit("Add", [lengths, b.add_constant(np.int32(1 - length))])
    if length == int(total[0]):  # a prompt
        before = b.add_constant(np.zeros((batch, 1), np.int32))
    steps = b.add_constant(np.arange(length, dtype=np.int32)[None])
    places = b.emit("Add", [steps, before])
    if node.flag("do_rotary", b):
        cos, sin = node.required(7, b), node.required(8, b)
        shape = (batch, 1, length, b.shape(cos)[1])
        factors = [_of_places(b, table, places, shape) for table in (cos, sin)]
        turned = node.flag("rotary_interleaved", b)
        query, key = (emit_rotary(b, part, *factors, turned) for part in (query, key))
    columns = max(int(total[0]), kept)
    keys, values = (
        _with_past(b, old if kept else None, new, before, columns)
        for old, new in zip(past, (key, value), strict=True)
    )
    rows = b.emit("Reshape", [query], shape=(batch, shared, heads // shared * length, size))
    turned_keys = b.emit("Transpose", [keys], perm=(0, 1, 3, 2))
    scale = float(node.attributes.get("scale", 0.0)) or 1 / math.sqrt(size)
    scores = b.emit("Mul", [emit_matmul(b, rows, turned_keys), b.add_constant(np.float32(scale))])
    cap = float(node.attributes.get("softcap", 0.0))
    if cap:
        share = b.emit("Tanh", [b.emit("Mul", [scores, b.add_constant(np.float32(1 / cap))])])
        scores = b.emit("Mul", [share, b.add_constant(np.float32(cap))])
    apart = b.emit("Reshape", [scores], shape=(batch, heads, length, columns))
    seen = _seen(b, places, columns)
    masked = b.emit("Where", [seen, apart, b.add_constant(np.float32(_LEAST))], "float32")
    shares = b.emit("Softmax", [masked], axis=3)
    shares = b.emit("Reshape", [shares], shape=(batch, shared, heads // shared * length, columns))
    y = emit_matmul(b, shares, values)
    y = b.emit("Reshape", [y], shape=(batch, heads, length, b.shape(values)[3]))
    y = b.emit("Transpose", [y], perm=(0, 2, 1, 3))
    return [b.emit("Reshape", [y], shape=(batch, length, heads * b.shape(values)[3])), keys, values]


def _parts(node: OnnxNode, b: GraphBuilder, heads: int, shared: int) -> tuple[str, str, str]:
    """Queries, keys and values [batch, heads, length, size]."""
    x = node.required(0, b)
    batch, length, columns = b.shape(x)
    if heads < 1 or shared < 1 or heads % shared:
        raise b.error(f"{heads} heads of queries and {shared} of keys")
    given = [x, node.input(1), node.input(2)]
    counts = [heads, shared, shared]
    if given[1] is None:
        size = columns // (heads + 2 * shared)
        ends = np.cumsum([0, *(count * size for count in counts)]).tolist()
        given = [cut(b, x, 2, *ends[i : i + 2]) for i in range(3)]
    parts = []
    for part, count in zip(given, counts, strict=True):
        if part is None or b.shape(part)[-1] % count:
            raise b.error(f"keys or values that do not divide among {count} heads")
        apart = b.emit("Reshape", [part], shape=(batch, length, count, b.shape(part)[-1] // count))
        parts.append(b.emit("Transpose", [apart], perm=(0, 2, 1, 3)))
    return parts[0], parts[1], parts[2]


def _with_past(b: GraphBuilder, past: str | None, new: str, before: str, columns: int) -> str:
    """New rows [batch, heads, length, size] behind those of a cache that count, in so many rows.

    before: for each sequence how many of the cache's rows count, int32 [batch, 1]. A row behind the
    new ones holds the last of them, which no query sees.
    """
    batch, heads, length, size = b.shape(new)
    if past is None and columns == length:
        return new
    kept = 0 if past is None else b.shape(past)[2]
    both = new if past is None else _concatenated(b, [past, new], 2)
    rows = b.add_constant(np.arange(columns, dtype=np.int32)[None])
    behind = b.emit("Sub", [rows, before])  # of the new rows
    last = b.add_constant(np.int32(length - 1))
    inside = b.emit("Where", [b.emit("Greater", [behind, last], "float32"), last, behind], "int32")
    shifted = b.emit("Add", [inside, b.add_constant(np.int32(kept))])
    old = b.emit("Greater", [before, rows], "float32")
    place = b.emit("Where", [old, rows, shifted], "int32")
    if batch == 1:
        place = b.emit("Reshape", [place], shape=(columns,))
        return b.emit("Gather", [both, place], b.dtype(both), axis=2)
    first = np.arange(batch, dtype=np.int32)[:, None] * (kept + length)
    place = b.emit("Add", [place, b.add_constant(first)])
    turned = b.emit("Transpose", [both], perm=(0, 2, 1, 3))
    flat = b.emit("Reshape", [turned], shape=(batch * (kept + length), heads, size))
    found = b.emit("Gather", [flat, place], b.dtype(both), axis=0)
    return b.emit("Transpose", [found], perm=(0, 2, 1, 3))


def _seen(b: GraphBuilder, places: str, columns: int) -> str:
    """Whether a query at each of the places [batch, length] sees each key: [batch, 1, length, .]"""
    batch, length = b.shape(places)
    apart = b.emit("Reshape", [places], shape=(batch, 1, length, 1))
    keys = b.add_constant(np.arange(columns, dtype=np.int32))
    return b.emit("GreaterOrEqual", [apart, keys], "float32")
