"""Model files that are no good, given to every verb that takes one."""

import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from small_models import external, of_type, small_network, unary

VERBS = {
    "tune": ("--target", "cpu", "--trials", 4, "-o", "new.jsonl"),
    "compile": ("--target", "cpu", "-o", "new.tar"),
    "quantize": ("-o", "new.onnx"),
    "prune": ("-o", "new.onnx", "--sparsity", 0.5),
}


@pytest.fixture(params=VERBS)
def refused(request, refuses):
    """Checks that a verb refuses the model file, with the words given."""

    def check(path, *words):
        refuses(request.param, path, *VERBS[request.param], words=(str(path), *words))

    return check


def test_a_missing_file(refused):
    refused("absent.onnx", "No such file")


def test_a_folder(refused, folder):
    (folder / "models").mkdir()
    refused("models", "Is a directory")


@pytest.mark.parametrize("content", [b"", b"hello\n", b"\x7fELF\x02\x01\x01", b'{"a": 1}\n'])
def test_a_file_that_is_not_onnx(refused, folder, content):
    (folder / "text.onnx").write_bytes(content)
    refused("text.onnx", "not an ONNX file")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_truncated_file(refused, folder, model, share):
    whole = model.read_bytes()
    (folder / "cut.onnx").write_bytes(whole[: int(len(whole) * share)])
    refused("cut.onnx", "truncated")


def test_external_data_that_is_missing(refused, folder):
    external(folder / "m.onnx", "weights.bin", None)
    refused("m.onnx", "'weights.bin'", "'conv.weight'", "missing")


def test_external_data_that_is_too_short(refused, folder):
    external(folder / "m.onnx", "weights.bin", b"\0" * 10)
    refused("m.onnx", "'conv.weight'", "'weights.bin'")


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/hostname", "a/../../weights.bin"])
def test_external_data_outside_the_folder_of_the_model(refused, folder, location):
    inner = folder / "inner"
    inner.mkdir()
    (folder / "weights.bin").write_bytes(b"\0" * (1 << 15))
    external(inner / "m.onnx", location, None)
    refused("inner/m.onnx", repr(location), "outside")


def test_external_data_behind_a_link_out_of_the_folder(refused, folder):
    inner = folder / "inner"
    inner.mkdir()
    (folder / "weights.bin").write_bytes(b"\0" * (1 << 15))
    (inner / "weights.bin").symlink_to(folder / "weights.bin")
    external(inner / "m.onnx", "weights.bin", None)
    refused("inner/m.onnx", "'weights.bin'", "outside")


def test_external_data_behind_links_in_a_circle(refused, folder):
    external(folder / "m.onnx", "weights.bin", None)
    (folder / "weights.bin").symlink_to("weights.bin")
    refused("m.onnx", "'weights.bin'", "'conv.weight'")


@pytest.mark.parametrize("opset", [1, 6, 99])
def test_an_unknown_opset(refused, folder, opset):
    onnx.save(unary("Relu", opset), "m.onnx")
    refused("m.onnx", f"opset {opset}", "are supported")


@pytest.fixture
def not_compiled(refuses):
    """Checks that what only reads or quantises lets through is refused by the compiler."""

    def check(path, *words):
        for verb in ("tune", "compile"):
            refuses(verb, path, *VERBS[verb], words=(str(path), *words))

    return check


@pytest.mark.parametrize("domain", ["", "com.example"])
def test_an_operator_that_nobody_supports(not_compiled, folder, domain):
    onnx.save(unary("Det" if not domain else "Frobnicate", domain=domain), "m.onnx")
    not_compiled("m.onnx", "'odd'", "not supported", "Conv")


def test_dynamic_shapes_ask_for_input_shapes(not_compiled, folder):
    onnx.save(small_network("N", "size"), "m.onnx")
    not_compiled("m.onnx", "'x'", "[N,16,size,size]", '--input-shapes "x:[1,16,1,1]"')


def test_dynamic_shapes_with_input_shapes_compile(autoq, folder):
    onnx.save(small_network("N", "size"), "m.onnx")
    screen = autoq("compile", "m.onnx", "--target", "cpu", "-o", "m.tar",
                   "--input-shapes", "x:[2,16,6,6]")  # fmt: skip
    assert screen.code == 0, screen
    screen = autoq("run", "m.tar")
    assert (screen.code, screen.out) == (0, "y: float32 [2, 10]\n"), screen


def test_models_without_samples_that_numbers_could_be(refuses, folder):
    network = small_network()
    network.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "channels"
    onnx.save(network, "open.onnx")
    words = ("open.onnx", "onnxruntime cannot quantise it", "open sizes of 'x' are 1")
    refuses("quantize", "open.onnx", "-o", "new.onnx", words=words)
    onnx.save(of_type(unary("Not"), TensorProto.BOOL), "bool.onnx")
    words = ("input 'x' of bool", "--calibration")
    refuses("quantize", "bool.onnx", "-o", "new.onnx", words=words)


def test_a_model_of_flags_runs_on_made_up_ones(autoq, folder):
    onnx.save(of_type(unary("Not"), TensorProto.BOOL), "m.onnx")
    assert autoq("compile", "m.onnx", "--target", "cpu", "-o", "m.tar").code == 0
    screen = autoq("run", "m.tar")
    assert (screen.code, screen.out) == (0, "y: bool [1, 16]\n"), screen


def _without_outputs(model):
    del model.graph.output[:]


def _with_a_shorter_weight(model):
    tensor = model.graph.initializer[0]
    tensor.raw_data = tensor.raw_data[:-3]


def _with_two_weights_of_a_name(model):
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(1), "fc.bias"))


def _in_a_circle(model):
    model.graph.node[0].input[0] = "b"


def _with_a_node_without_inputs(model):
    del model.graph.node[1].input[:]


def _with_pads_in_words(model):
    model.graph.node[0].attribute[0].CopyFrom(onnx.helper.make_attribute("pads", "all"))


def _of_an_unknown_type(model):
    model.graph.input[0].type.tensor_type.elem_type = 999


def _too_large(model):
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1 << 40


def _with_a_function_that_calls_itself(model):
    own = onnx.helper.make_opsetid("own", 1)
    body = [onnx.helper.make_node("Mine", ["x"], ["y"], domain="own")]
    model.functions.append(onnx.helper.make_function("own", "Mine", ["x"], ["y"], body, [own]))
    model.opset_import.append(own)
    model.graph.node[1].op_type, model.graph.node[1].domain = "Mine", "own"


UNSOUND = {
    _without_outputs: ("no outputs",),
    _with_a_shorter_weight: ("'conv.weight'", "truncated"),
    _with_two_weights_of_a_name: ("'fc.bias'", "twice"),
    _in_a_circle: ("'conv'", "reads what follows from it"),
    _with_a_node_without_inputs: ("'relu'", "input size 0"),
    _with_pads_in_words: ("'conv'", "pads", "INTS"),
    _of_an_unknown_type: ("'x'", "unknown element type 999"),
    _too_large: ("'x'", "[1099511627776, 16, 8, 8]"),
    _with_a_function_that_calls_itself: ("cannot be inlined", "own"),
}


@pytest.mark.parametrize("fault", UNSOUND)
def test_models_that_no_runtime_takes(refused, folder, fault):
    network = small_network()
    fault(network)
    (folder / "m.onnx").write_bytes(network.SerializeToString())
    refused("m.onnx", *UNSOUND[fault])


def test_branches_read_tensors_around_them(autoq, folder):
    """onnx's schemas would refuse the node by itself."""
    network = small_network()
    branches = {
        f"{way}_branch": onnx.helper.make_graph(
            [onnx.helper.make_node(operator, ["a"], [way])],
            way, [], [onnx.helper.make_tensor_value_info(way, TensorProto.FLOAT, None)],
        )
        for way, operator in {"then": "Relu", "else": "Neg"}.items()
    }  # fmt: skip
    network.graph.initializer.append(onnx.numpy_helper.from_array(np.array(True), "yes"))
    network.graph.node[1].CopyFrom(onnx.helper.make_node("If", ["yes"], ["b"], **branches))
    onnx.save(network, "m.onnx")
    assert autoq("quantize", "m.onnx", "-o", "q.onnx").code == 0
    assert autoq("prune", "m.onnx", "-o", "p.onnx", "--sparsity", 0.5).code == 0


@pytest.mark.parametrize(
    ("verb", "words"),
    [("quantize", ("holds NaN",)), ("prune", ("node 'conv'", "holds NaN or infinities"))],
)
def test_weights_of_no_size(refuses, folder, verb, words):
    network = small_network()
    weight = np.full((32, 16, 3, 3), np.nan, np.float32)
    network.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weight, "conv.weight"))
    onnx.save(network, "m.onnx")
    refuses(verb, "m.onnx", *VERBS[verb], words=("'conv.weight'", *words))


def test_an_input_without_a_shape(not_compiled, folder):
    network = small_network()
    network.graph.input[0].type.tensor_type.ClearField("shape")
    onnx.save(network, "m.onnx")
    not_compiled("m.onnx", "'x' has no shape", '--input-shapes "x:[1,3,224,224]"')


def test_files_whose_names_are_no_text(autoq, folder, model):
    out = os.fsdecode(b"\xff.jsonl")
    screen = autoq("tune", model, "--target", "cpu", "--trials", 3, "--jobs", 1, "-o", out)
    assert screen.code == 0 and (folder / out).stat().st_size, screen
