"""Files and models that cannot be imported: one line that says what, where and what to do."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx_models.makers import MICROSOFT, model, node, normal
from onnx_models.networks import resnet_path
from onnx_models.operators import IMAGE, conv, image, int64, with_constants
from refusals import assert_refused, saved

from autoq.errors import AutoqError, InputError, ModelError
from autoq.frontend import load


def test_missing_file(tmp_path):
    assert_refused(tmp_path / "no.onnx", r"no\.onnx: cannot be read \(No such file")


def test_folder(tmp_path):
    assert_refused(tmp_path, "cannot be read")


@pytest.mark.parametrize("content", [b"", b"not a model at all", b"\x00" * 64, b"\x08\x07"])
def test_not_onnx(content, tmp_path):
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    assert_refused(path, r"bad\.onnx: not an ONNX file")


def test_truncated_anywhere(tmp_path):
    whole = conv((8, 6, 3, 3)).SerializeToString()
    path = tmp_path / "bad.onnx"
    for length in range(0, len(whole) - 1, 7):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelError, match=r"bad\.onnx"):
            load(path)


def test_flipped_bytes_never_escape_as_another_error(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "bad.onnx"
    whole = bytearray(with_constants("Pad", "x p", p=int64(*range(8))).SerializeToString())
    for _ in range(300):
        damaged = bytearray(whole)
        for position in rng.integers(0, len(whole), 2):
            damaged[position] = rng.integers(0, 256)
        path.write_bytes(bytes(damaged))
        try:
            load(path)
        except AutoqError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize("opset", [1, 6, 99])
def test_unknown_opset(opset, tmp_path):
    made = image("Relu")
    made.opset_import[0].version = opset
    assert_refused(saved(made, tmp_path), rf"opset {opset}; opsets 7 to")


def test_no_opset(tmp_path):
    made = image("Relu")
    del made.opset_import[:]
    assert_refused(saved(made, tmp_path), "no opset of the default domain")


def test_unsupported_operator_names_node_and_what_is_supported(tmp_path):
    made = image("Det", shape=(3, 3))
    assert_refused(
        saved(made, tmp_path),
        r"node 'Det_y' \(Det\).*not supported \(cut .*\); supported: Abs, Add",
    )


def test_unknown_domain(tmp_path):
    made = image("Relu")
    made.graph.node[0].domain = "org.example"
    assert_refused(saved(made, tmp_path), r"org\.example\.Relu is not supported \(export it as")


class TestDynamicShapes:
    @pytest.fixture
    def path(self, tmp_path):
        made = model([node("Relu", "data")], {"data": (["batch", 3, 8, "width"], "float32")})
        return saved(made, tmp_path)

    def test_refused_with_the_option_to_give(self, path):
        pattern = r'dynamic shape \[batch,3,8,width\].*--input-shapes "data:\[1,3,8,1\]"'
        assert_refused(path, pattern)

    def test_given(self, path):
        assert load(path, {"data": (2, 3, 8, 5)}).shape("y") == (2, 3, 8, 5)

    @pytest.mark.parametrize("sizes", [(2, 4, 8, 5), (2, 3, 8), (2, 3, 8, 0)])
    def test_given_wrong(self, path, sizes):
        assert_refused(path, "--input-shapes", InputError, {"data": sizes})

    def test_unknown_name(self, path):
        assert_refused(path, "no input 'x'; its inputs are data", InputError, {"x": (1,)})


def test_batch_of_a_static_model_may_be_changed(tmp_path):
    path = saved(conv((8, 6, 3, 3)), tmp_path)
    assert load(path, {"x": (5, *IMAGE[1:])}).shape("y") == (5, 8, 7, 8)


def test_unknown_element_type_of_an_input(tmp_path):
    made = image("Relu")
    made.graph.input[0].type.tensor_type.elem_type = 999
    assert_refused(saved(made, tmp_path), "input 'x' of the unknown element type 999")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (b"Relu_y", r"graph\.node\[0\]\.name"),
        (b"case", r"graph\.name"),
        (b"picture", r"graph\.node\[0\]\.input\[0\]"),
        (b"a dimension", r"graph\.input\[0\]\.type.*dim\[0\]\.dim_param"),
    ],
)
def test_names_that_are_not_utf8(text, place, tmp_path):
    made = model([node("Relu", "picture")], {"picture": (["a dimension", 3], "float32")})
    content = made.SerializeToString()
    assert text in content
    path = tmp_path / "bad.onnx"
    path.write_bytes(content.replace(text, b"\xff" * len(text)))
    assert_refused(path, rf"bad\.onnx: model\.{place} is not UTF-8 text")


def test_attribute_that_is_not_utf8(tmp_path):
    made = image("Pad", opset=9, pads=[0, 0, 1, 1] * 2, mode="constant")
    made.graph.node[0].attribute[0].s = b"\xff\xfe"
    assert_refused(saved(made, tmp_path), r"node 'Pad_y' \(Pad\)")


CASES = {
    "integer convolution": (
        model(
            [node("Conv", "x w")], {"x": (IMAGE, "int8"), "w": ((8, 6, 3, 3), "float32")}
        ),
        "'x' of int8; Conv takes float32",
    ),
    "bias": (
        model(
            [node("Conv", "x w b")],
            {"x": (IMAGE, "float32"), "w": ((8, 6, 3, 3), "float32"), "b": ((1, 8), "float32")},
        ),
        r"bias \[1, 8\] of 8 filters",
    ),
    "input dtype": (
        model([node("Relu", "x")], {"x": (IMAGE, "float64")}), "input 'x' of float64"
    ),
    "missing weight": (
        model([node("Conv", "x w")], {"x": (IMAGE, "float32")}), "its input 'w' is made by no"
    ),
    "channels": (conv((8, 5, 3, 3)), "6 input channels, but weights"),
    "filter too large": (conv((8, 6, 30, 3)), "a window of 30 pixels does not fit in 9"),
    "no kernel_shape": (image("MaxPool"), "kernel_shape"),
    "3-D pool": (
        image("MaxPool", shape=(1, 3, 9, 9, 9), kernel_shape=[2] * 3), "only 2-D images"
    ),
    "diagonal": (image("Einsum", shape=(3, 3), equation="ii->i"), "take the diagonal before"),
    "scatter of a run": (
        model([node("ScatterND", "x i u")], {"x": ((4,), "float32"), "i": ((2, 1), "int64"),
                                             "u": ((2,), "float32")}), "indices that a run gives",
    ),
    "place beyond an axis": (with_constants("Gather", "x i", i=int64(0, 2)), "indices .* of 2"),
    "transposed weights of a run": (
        model([node("ConvTranspose", "x w")],
              {"x": (IMAGE, "float32"), "w": ((6, 4, 2, 2), "float32")}), "as initializers",
    ),
    "a transposed bias of one": (
        model([node("ConvTranspose", "x w b")], {"x": (IMAGE, "float32")},
              {"w": normal(6, 4, 2, 2), "b": normal(1)}), r"bias \[1\] of 4 filters",
    ),
    "variance of an axis twice": (image("MeanVarianceNormalization", axes=[0, 0]), "named twice"),
    "resized to nothing": (
        with_constants("Resize", "x - s", s=np.float32([1, 1, 0.1, 1])), "nothing is left",
    ),
    "axes": (with_constants("Unsqueeze", "x a", a=int64(1, -5)), "one is named twice"),
    "pad mode": (image("Pad", opset=9, pads=[0, 0, 1, 1] * 2, mode="mirror"), "mode 'mirror'"),
    "reshape": (with_constants("Reshape", "x s", s=int64(7, 9)), "cannot be reshaped"),
    "broadcast": (with_constants("Add", "x c", c=normal(7)), "do not broadcast"),
    "dynamic shape input": (
        model([node("Reshape", "x s")], {"x": (IMAGE, "float32"), "s": ((2,), "int32")}), "'s'"
    ),
    "transpose": (image("Transpose", perm=[0, 1, 1, 2]), "perm"),
    "per-channel activation": (
        with_constants("QuantizeLinear", "x s", attributes={"axis": 1}, s=np.ones(6, np.float32)),
        "per-channel activations",
    ),
    "quotient of integers": (
        model([node("Div", "x a")], {"x": (IMAGE, "int32"), "a": (IMAGE, "int32")}),
        "'x' of int32; Div takes float32",
    ),
    "power of integers": (
        model([node("Pow", "x a")], {"x": (IMAGE, "int32"), "a": (IMAGE, "int32")}),
        "inputs of int32 and float32",
    ),
    "infinite slope": (with_constants("PRelu", "x c", c=np.float32([np.inf])), "not finite"),
    "negative sizes": (
        with_constants("Reshape", "x s", s=int64(-2, -6, 90)), "at most one|no size may be negative"
    ),
    "an even number of negative sizes": (
        with_constants("Reshape", "x s", s=int64(-2, -6, 9, 10)), "no size may be negative"
    ),
    "a part left out": (
        model([node("Min", "x - a")], {"x": (IMAGE, "float32"), "a": (IMAGE, "float32")}),
        "input 1 is missing",
    ),
    "a joined part left out": (
        model([node("Concat", "x - a", axis=1)], {n: (IMAGE, "float32") for n in "xa"}),
        "input 1 is missing",
    ),
    "pixels that no window sees": (
        conv((8, 6, 3, 3), auto_pad="SAME_LOWER", strides=[10, 2]), "leave 6 of 9 pixels out"
    ),
    "alpha of an LRN": (image("LRN", size=3, alpha=3.4e38), "alpha 3.4e.38"),
    "a flag of pools": (
        image("MaxPool", kernel_shape=[2, 2], ceil_mode=2), "ceil_mode 2; it is 0 or 1"
    ),
    "a flag of means": (image("ReduceMean", keepdims=-1), "keepdims -1; it is 0 or 1"),
    "mean over an axis twice": (image("ReduceMean", axes=[1, -3]), "one is named twice"),
    "a vector times matrices": (
        model(
            [node("MatMul", "x w")], {"x": ((3,), "float32")}, {"w": np.ones((2, 4, 3), np.float32)}
        ),
        r"matrices \[1, 3\] and \[2, 4, 3\] do not multiply",
    ),
    "a mean of squares": (
        model([node("SkipSimplifiedLayerNormalization", "x z s", "n m", MICROSOFT),
               node("Add", "n m")], {n: ((2, 5, 8), "float32") for n in "xz"}, {"s": normal(8)}),
        "output 'm', a mean that nothing computes",
    ),
    "float64": (
        model([node("Cast", "x", to=onnx.TensorProto.DOUBLE)], {"x": (IMAGE, "float32")}),
        "float32 to float64",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_refused_with_a_reason(name, tmp_path):
    made, pattern = CASES[name]
    assert_refused(saved(made, tmp_path), pattern)


TWO = model([node("Relu", "x", "a"), node("Abs", "x", "y")], {"x": (IMAGE, "float32")})


class TestNamesGivenTwice:
    def test_output(self, tmp_path):
        made = image("Relu")
        made.graph.output.append(made.graph.output[0])
        assert_refused(saved(made, tmp_path), "output 'y' is listed twice")

    def test_input(self, tmp_path):
        made = image("Relu")
        made.graph.input.append(made.graph.input[0])
        assert_refused(saved(made, tmp_path), "input 'x' is declared twice")

    def test_initializer(self, tmp_path):
        made = conv((8, 6, 3, 3))
        made.graph.initializer.append(made.graph.initializer[0])
        assert_refused(saved(made, tmp_path), "initializer 'w' is given twice")

    @pytest.mark.parametrize("name", ["x", "y"])
    def test_result(self, name, tmp_path):
        made = onnx.ModelProto()
        made.CopyFrom(TWO)
        made.graph.node[0].output[0] = name
        assert_refused(saved(made, tmp_path), f"tensor '{name}' is written twice")


def test_file_name_that_no_file_has():
    assert_refused("a\0b.onnx", "no name of a file")


def test_input_that_is_an_output(tmp_path):
    made = image("Relu")
    made.graph.output.append(made.graph.input[0])
    assert_refused(saved(made, tmp_path), "output 'x' is an input")


def test_initializer_that_shadows_an_input_is_a_constant(tmp_path):
    made = conv((8, 6, 3, 3))
    weight = numpy_helper.to_array(made.graph.initializer[0])
    value = onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, weight.shape)
    made.graph.input.append(value)
    assert load(saved(made, tmp_path)).inputs == ("x",)


def test_layers_keep_the_names_of_their_nodes():
    graph = load(resnet_path(18, "float32", image=32))
    assert {"conv1", "layer1.0.add", "fc"} <= {name for n in graph.nodes for name in n.covers}
