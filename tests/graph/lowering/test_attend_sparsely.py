"""Attention under sparse constant masks of a model: what becomes of it on request, and what not."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx
import onnxruntime
import pytest
from gpu_kernels import end_if_compile_only
from onnx import numpy_helper

import autoq
from autoq.compilation.assembly import Packed
from autoq.compilation.selection import TemplateSelection
from autoq.devices import resolve
from autoq.errors import InputError
from autoq.frontend import from_model
from autoq.graph.ir import Layer
from autoq.graph.optimise import optimise
from autoq.graph.precision import make_precision
from autoq.models.sparse_transformer import LEFT_OUT, sparse_transformer, vector_mask
from autoq.templates.operators.attention import Attention
from autoq.templates.operators.sparse_attention import SparseAttention
from autoq.templates.registry import matching

TARGET = resolve("cuda:sm_90a").target
MASK = vector_mask(72, 0.75, seed=3)
MASK[5] &= np.arange(72) % 2 == 0
MASK[16:24] = False


def layers(model: onnx.ModelProto, name: str | None) -> list[Layer]:
    """The attention of a model under a precision."""
    graph = optimise(from_model(model), TARGET, precision=make_precision(name, None, None))
    kinds = Attention | SparseAttention
    return [n for n in graph.nodes if isinstance(n, Layer) and isinstance(n.workload, kinds)]


def with_mask(values: np.ndarray) -> onnx.ModelProto:
    """A model whose scores take another addend."""
    model = sparse_transformer(MASK, heads=2, layers=1, batch=2)
    (tensor,) = [one for one in model.graph.initializer if one.name == "mask"]
    tensor.CopyFrom(numpy_helper.from_array(values.astype(np.float16), "mask"))
    return model


def test_it_is_the_dense_attention_but_for_rounding_and_queries_without_keys() -> None:
    model = sparse_transformer(MASK, heads=2, layers=1, batch=2)
    (dense,), (sparse,) = layers(model, None), layers(model, "attention16-8")
    assert isinstance(sparse.workload, SparseAttention) and isinstance(dense.workload, Attention)
    assert (sparse.workload.order, sparse.workload.softmax_bits) == ("blhd", 16)
    assert sparse.inputs == dense.inputs and sparse.output == dense.output
    np.testing.assert_array_equal(sparse.workload.mask(sparse.constants).to_dense() != 0, MASK)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(s.shape).astype(np.float16) for s in dense.workload.inputs]
    (want,) = dense.workload.reference(inputs, dense.constants)
    (found,) = sparse.workload.reference(inputs, sparse.constants)
    seen = MASK.any(axis=1)
    error = np.square(found[:, seen].astype(float) - want[:, seen]).mean()
    assert error < 0.02**2 * np.square(want[:, seen].astype(float)).mean()
    assert not found[:, ~seen].any()


def test_every_layer_is_replaced_on_request_only() -> None:
    model = sparse_transformer(MASK, heads=2, layers=2, batch=1)
    assert [type(layer.workload) for layer in layers(model, None)] == [Attention] * 2
    found = layers(model, "attention8-4")
    assert [layer.precision for layer in found] == ["sparse attention, 8-4 bits"] * 2


def test_layers_under_one_mask_are_packed_once() -> None:
    first, second = layers(sparse_transformer(MASK, heads=2, layers=2, batch=1), "attention8-8")
    (template, *_) = matching(first.workload, TARGET)
    config = template.default(first.workload, TARGET)
    other = dataclasses.replace(second, constants={**second.constants, "scale": np.float32([2])})
    packed = Packed()
    found = [
        packed.of(TemplateSelection(layer, TARGET, "default", template, config))
        for layer in (first, second, other)
    ]
    assert found[0] is found[1] and found[1] is not found[2]
    assert found[2][-1] == 2


@pytest.mark.parametrize(
    "values",
    [
        np.where(vector_mask(72, 0.4), 0.0, LEFT_OUT),
        np.where(MASK, 0.5, LEFT_OUT),
        np.where(MASK, 0.0, -20.0),
        np.where(np.stack([MASK, MASK[::-1]])[None], 0.0, LEFT_OUT),
    ],
    ids=["keeps most", "adds to scores", "leaves shares", "by heads"],
)
def test_what_is_no_sparse_mask_is_refused(values: np.ndarray) -> None:
    with pytest.raises(InputError, match=r"precision attention8-8: .* no attention of float16"):
        layers(with_mask(values), "attention8-8")


def test_a_threshold_is_of_products() -> None:
    with pytest.raises(InputError, match="needs a precision such as residual8"):
        make_precision("attention8-8", 1.0, None)


def test_a_mask_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match=r"a mask of float32 \[8, 8\]: bool"):
        sparse_transformer(np.zeros((8, 8), np.float32))


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["attention16-8", "attention8-8", "attention8-4"])
def test_a_compiled_model_agrees_with_onnxruntime(tmp_path, name: str) -> None:
    end_if_compile_only()
    mask = vector_mask(512, 0.9)
    model = sparse_transformer(mask, heads=4, layers=2, batch=2)
    onnx.save(model, tmp_path / "model.onnx")
    x = np.random.default_rng(1).standard_normal((2, 512, 256)).astype(np.float16)
    (want,) = onnxruntime.InferenceSession(tmp_path / "model.onnx").run(None, {"input": x})
    report = autoq.compile(
        tmp_path / "model.onnx", target="cuda", precision=name, output=tmp_path / "model.tar"
    )
    assert len(report.precisions) == 2
    (found,) = autoq.Session(tmp_path / "model.tar").run(None, {"input": x})
    error = np.sqrt(np.mean((found.astype(float) - want) ** 2))
    assert error < (0.1 if name.endswith("4") else 0.02) * np.sqrt(np.mean(want.astype(float) ** 2))


def test_scores_that_no_kernel_writes_may_be_more_than_it_could_index() -> None:
    """2^31 of them: attention is one kernel on a GPU; where it is not, they are refused by name."""
    model = sparse_transformer(vector_mask(512, 0.75), heads=4, layers=1, batch=2**11)
    assert [type(layer.workload) for layer in layers(model, "attention8-8")] == [SparseAttention]
    assert [type(layer.workload) for layer in layers(model, None)] == [Attention]
    pattern = r"node 'layer0.attention.scores': a tensor \[.*\] of 2147483648 elements"
    with pytest.raises(InputError, match=pattern):
        optimise(from_model(model), TARGET, templates=[])
