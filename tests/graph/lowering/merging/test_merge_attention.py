"""Two products and the softmax between them are one kernel where nothing else reads scores."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx_models.makers import model, node
from optimised_models import pair
from qdq.oracle import Oracle, normal_feeds, run_in_memory

from autoq.frontend import from_model
from autoq.graph import Graph, Layer, evaluate, optimise
from autoq.models.bert import bert
from autoq.models.token_writer import in_float16
from autoq.templates.operators.attention import Attention
from autoq.templates.operators.attention_of_products import rescaling, without_idle_rescaling
from autoq.templates.operators.attention_scalars import ATTENTION_SCALARS, attention_scalars
from autoq.templates.registry import matching
from autoq.templates.target import Target, parse_target

HOPPER, TURING, CPU = (parse_target(name) for name in ("cuda:sm_90a", "cuda:sm_75", "cpu"))
BATCH, HEADS, QUERIES, KEYS, DEPTH = 2, 3, 5, 7, 8
QKV = {"q": ((BATCH, QUERIES, HEADS, DEPTH), "float32"),
       "k": ((BATCH, KEYS, HEADS, DEPTH), "float32"),
       "v": ((BATCH, KEYS, HEADS, DEPTH), "float32")}  # fmt: skip
TURNED = {"q": [0, 2, 1, 3], "k": [0, 2, 3, 1], "v": [0, 2, 1, 3]}
STEPS = {"a": 0.05, "b": 0.0625, "c": 0.11, "p": 1 / 255, "y": 0.03}
CONSTANTS = {f"s{n}": np.float32(step) for n, step in STEPS.items()}
CONSTANTS |= {"zu": np.uint8(130), "zs": np.int8(-3), "zp": np.uint8(0), "zn": np.int8(-128),
              "third": np.float32(0.353), "half": np.float32(0.5)}  # fmt: skip


def attentions(graph: Graph) -> list[Attention]:
    found = [node.workload for node in graph.nodes if isinstance(node, Layer)]
    return [work for work in found if isinstance(work, Attention)]


def quantised(
    steps: list[onnx.NodeProto], scores: str, outputs: tuple[str, ...] = ("y",),
    shares: tuple[str, str, str] = ("sp", "zp", "sp"), **constants: np.ndarray,
) -> onnx.ModelProto:  # fmt: skip
    """Attention whose scores "m" some steps make `scores` of, to quantised "y"."""
    nodes = []
    for name, perm in TURNED.items():
        nodes += pair(name, f"{name}d", "sb", "zu" if name == "q" else "zs")
        nodes.append(node("Transpose", f"{name}d", f"{name}t", perm=perm))
    step, zero, read = shares
    nodes += [
        node("MatMul", "qt kt", "m"), *steps, node("Softmax", scores, "p", axis=-1),
        node("QuantizeLinear", f"p {step} {zero}", "pq"),
        node("DequantizeLinear", f"pq {read} {zero}", "pd"), node("MatMul", "pd vt", "w"),
        *pair("w", "wd", "sy", "zs"), node("Transpose", "wd", "y", perm=[0, 2, 1, 3]),
    ]  # fmt: skip
    used = {name for item in nodes for name in item.input}
    constants = {n: c for n, c in {**CONSTANTS, **constants}.items() if n in used}
    return model(nodes, QKV, constants, outputs)


def assert_agrees(made: onnx.ModelProto, target=HOPPER) -> Graph:
    feeds = normal_feeds(made, np.random.default_rng(1))
    graph = optimise(from_model(made), target)
    assert not Oracle(made, feeds).complaint(evaluate(graph, feeds))
    return graph


MASK = np.where(np.arange(KEYS) % 3 == 1, np.float32(-8), np.float32(0.25))
WHOLE = np.linspace(-2, 2, HEADS * QUERIES * KEYS, dtype=np.float32).reshape(HEADS, QUERIES, KEYS)
BOTH = [*pair("m", "a", "sa", "zu"), node("Mul", "a third", "b"), *pair("b", "c", "sb", "zs")]
CHAINS = {
    "plain": ([], "m", ""),
    "rounded": (pair("m", "a", "sa", "zu"), "a", "quantised_scores"),
    "rescaled": (BOTH, "c", "quantised_scores rescaled_scores"),
    "scaled": ([node("Mul", "m half", "a"), *pair("a", "b", "sa", "zs")], "b", "quantised_scores"),
    "masked": ([*pair("m", "a", "sa", "zs"), node("Add", "mask a", "b")], "b",
               "mask constant n quantised_scores"),
    "floats masked": ([node("Add", "m whole", "b")], "b", "mask constant hmn"),
    "all": ([*BOTH, node("Add", "c whole", "d"), *pair("d", "e", "sc", "zu")], "e",
            "mask constant hmn quantised_scores rescaled_scores quantised_masked"),
}  # fmt: skip


@pytest.mark.parametrize("chain", CHAINS)
def test_quantised_attention_rounds_where_the_model_does(chain: str) -> None:
    steps, scores, described = CHAINS[chain]
    made = quantised(steps, scores, mask=MASK, whole=WHOLE)
    graph = assert_agrees(made)
    (work,) = attentions(graph)
    assert (work.batch, work.heads, work.queries, work.keys) == (BATCH, HEADS, QUERIES, KEYS)
    assert str(work).partition(" blhd,blhd,blhd,blhd")[2].strip() == described
    for target in (TURING, CPU):
        assert not attentions(optimise(from_model(made), target))


def test_signed_shares_are_the_same_bytes() -> None:
    (work,) = attentions(assert_agrees(quantised([], "m", shares=("sp", "zn", "sp"))))
    assert work.v_dtype in ("int8", "uint8")


KEPT = {
    "scores are an output": quantised(CHAINS["rounded"][0], "a", ("y", "a")),
    "shares are an output": quantised([], "m", ("y", "pd")),
    "raw scores are read": quantised([node("Relu", "m", "r")], "m", ("y", "r")),
    "a clamp": quantised([node("Relu", "m", "r")], "r"),
    "a mask of a column": quantised([node("Add", "m column", "b")], "b",
                                    column=np.ones((QUERIES, 1), np.float32)),
    "scores added to themselves": quantised([node("Add", "m m", "b")], "b"),
    "two masks": quantised([node("Add", "m mask", "b"), node("Add", "b whole", "c")], "c",
                           mask=MASK, whole=WHOLE),
}  # fmt: skip


@pytest.mark.parametrize("reason", KEPT)
def test_others_are_kept_apart(reason: str) -> None:
    assert not attentions(assert_agrees(KEPT[reason]))


def test_shares_read_by_another_scale_change_the_result() -> None:
    made = quantised([], "m", shares=("sp", "zp", "sa"))
    assert len(attentions(assert_agrees(made))) == 1


def floats(mask: str, dtype: str = "float16") -> onnx.ModelProto:
    """Attention of a model of floats; its mask is an input, times a number, or a constant."""
    nodes = [node("Transpose", name, f"{name}t", perm=perm) for name, perm in TURNED.items()]
    nodes += [node("MatMul", "qt kt", "m"), node("Div", "m root", "s")]
    if mask == "computed":
        nodes += [node("Mul", "given large", "mask"), node("Add", "s mask", "z")]
    elif mask:
        nodes.append(node("Add", f"{'given' if mask == 'input' else 'fixed'} s", "z"))
    nodes += [node("Softmax", "z" if mask else "s", "p", axis=-1), node("MatMul", "p vt", "w"),
              node("Transpose", "w", "y", perm=[0, 2, 1, 3])]  # fmt: skip
    constants = {"root": np.array(2.83, dtype), "large": np.array(-3, dtype),
                 "fixed": WHOLE.astype(dtype)}  # fmt: skip
    inputs = {name: (shape, dtype) for name, (shape, _) in QKV.items()}
    inputs["given"] = ((BATCH, 1, 1, KEYS), dtype)
    used = {name for item in nodes for name in item.input}
    return model(nodes, {n: i for n, i in inputs.items() if n in used},
                 {n: c for n, c in constants.items() if n in used})  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(
    ("mask", "described"),
    [("", ""), ("input", "mask bn"), ("computed", "mask bn"), ("constant", "mask constant hmn")],
)
def test_attention_of_floats(mask: str, described: str, dtype: str) -> None:
    made = floats(mask, dtype)
    rng = np.random.default_rng(4)
    feeds = {}
    for value in made.graph.input:
        shape = [size.dim_value for size in value.type.tensor_type.shape.dim]
        feeds[value.name] = rng.standard_normal(shape).astype(dtype)
    graph = optimise(from_model(made), HOPPER)
    (expected,), (found,) = run_in_memory(made, feeds).values(), evaluate(graph, feeds).values()
    difference = np.abs(found.astype(np.float32) - expected.astype(np.float32)).max()
    allowed = 2.0**-8 if dtype == "float16" else 2.0**-20
    assert difference <= allowed * np.abs(expected.astype(np.float32)).max()
    (work,) = attentions(graph)
    assert work.q_dtype == work.out_dtype == dtype
    assert str(work).partition(" blhd,blhd,blhd,blhd")[2].strip() == described
    assert not attentions(optimise(from_model(made), TURING))


def test_rescaling_gives_every_entry_or_nothing() -> None:
    q = np.arange(256) - 131
    table = np.clip(np.rint(q.astype(np.float32) * np.float32(0.353)), -40, 30).astype(int)
    found = rescaling(table, np.dtype(np.uint8), 131)
    assert found is not None and abs(found["rescale"] - 0.353) < 2e-3
    assert (found["rescaled_low"], found["rescaled_high"]) == (-40, 30)
    table[140] += 1
    assert rescaling(table, np.dtype(np.uint8), 131) is None
    assert rescaling(np.zeros(256, int), np.dtype(np.uint8), 131) is None


@pytest.mark.parametrize(
    ("rescale", "low", "idle"), [(1.0, -90, True), (0.999, -90, True), (0.9, -90, False)]
)
def test_a_second_rounding_that_changes_nothing_is_none(rescale, low, idle):
    types = {f"{name}_dtype": "int8" for name in ("q", "k", "v", "out")}
    work = Attention(1, 1, 4, 4, 16, **types, quantised_scores=True, rescaled_scores=True)
    (*arrays,), constants = work.random_case(np.random.default_rng(0))
    changed = {"rescale": rescale, "rescaled_low": low, "rescaled_high": 100}
    scalars = dict(zip(ATTENTION_SCALARS, map(float, constants["scalars"]), strict=True)) | changed
    constants["scalars"] = attention_scalars(**scalars)
    plain, plain_constants = without_idle_rescaling(work, constants)
    assert plain.rescaled_scores != idle
    (y,), (expected,) = (
        one.reference(arrays, own) for one, own in ((plain, plain_constants), (work, constants))
    )
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(("target", "merged"), [(HOPPER, 1), (TURING, 0)])
def test_scores_that_no_array_holds_need_none_in_one_kernel(target: Target, merged: int) -> None:
    made = in_float16(bert(layers=1, length=16384, width=128, heads=2))
    graph = optimise(from_model(made), target)
    assert len(attentions(graph)) == merged
    layers = [node.workload for node in graph.nodes if isinstance(node, Layer)]
    assert all(matching(layer, target) for layer in layers)
