"""Options with values that make no sense, one line each."""

import os

import numpy as np
import pytest
from small_models import external

from autoq.cli.options import parse_shapes
from autoq.cli.tune import TUNERS
from autoq.errors import InputError
from autoq.runtime.cuda.driver import device_count
from autoq.search.registry import STRATEGIES

TUNE = ("--target", "cpu", "-o", "new.jsonl")

BAD_TUNE = {
    "no output": (("--target", "cpu"), ("--output",)),
    "no trials": ((*TUNE, "--trials", 0), ("--trials 0", "at least 1")),
    "negative trials": ((*TUNE, "--trials", -5), ("--trials -5", "at least 1")),
    "trials in words": ((*TUNE, "--trials", "many"), ("--trials", "integer")),
    "no trials a task": ((*TUNE, "--trials-per-task", 0), ("--trials-per-task 0",)),
    "no patience": ((*TUNE, "--early-stopping", 0), ("--early-stopping 0",)),
    "no time": ((*TUNE, "--time-budget", 0), ("--time-budget 0", "positive")),
    "endless time": ((*TUNE, "--time-budget", "inf"), ("--time-budget inf", "at most")),
    "time that no clock counts": ((*TUNE, "--timeout", 1e12), ("--timeout 1000000000000.0",)),
    "no time to run": ((*TUNE, "--timeout", -1), ("--timeout -1", "positive")),
    "unknown tuner": ((*TUNE, "--tuner", "magic"), ("'magic'", "diverse", "random")),
    "unknown task": ((*TUNE, "--tasks", "99"), ("'99'", "tasks are 0 to 1")),
    "tasks in words": ((*TUNE, "--tasks", "first"), ("'first'", "2-5")),
    "empty range": ((*TUNE, "--tasks", "1-0"), ("'1-0'",)),
    "no tasks": ((*TUNE, "--tasks", ""), ("--tasks",)),
    "cold CPU": ((*TUNE, "--cold"), ("--cold", "CUDA")),
    "unknown option": ((*TUNE, "--frobnicate"), ("--frobnicate", "see autoq tune --help")),
    "unknown layout": ((*TUNE, "--layouts", "nhwc,nchw"), ("--layouts 'nchw'", "nhwcnc")),
    "no layout": ((*TUNE, "--layouts", ""), ("--layouts ''", "nhwcnc")),
    "layout of no template": ((*TUNE, "--layouts", "nhwc,nhwcnc"), ("nhwcnc", "leave it out")),
    "more jobs than processes": ((*TUNE, "--jobs", 100000), ("--jobs 100000", "1 to")),
    "negative jobs": ((*TUNE, "--jobs", -1), ("--jobs", "0")),
    "seed below zero": ((*TUNE, "--seed", -1), ("--seed -1", "at least 0")),
    "a GPU's number": ((*TUNE, "--device", 3), ("device 3", "the target is the CPU")),
    "absent records": ((*TUNE, "--tuning-records", "absent.jsonl"), ("absent.jsonl", "No such")),
}


@pytest.mark.parametrize("case", BAD_TUNE)
def test_tune_refuses(refuses, model, case):
    arguments, words = BAD_TUNE[case]
    refuses("tune", model, *arguments, words=words)


@pytest.mark.parametrize("verb", ["tune", "compile"])
@pytest.mark.parametrize("target", ["quantum", "cuda:sm_12", "cpu:sm_90a", "", "tpu"])
def test_unknown_targets(refuses, model, verb, target):
    refuses(verb, model, "--target", target, "-o", "new", words=(repr(target), "cuda:sm_80"))


@pytest.mark.parametrize("target", ["cuda", "cuda:sm_90a"])
@pytest.mark.skipif(device_count() > 0, reason="there is a CUDA GPU")
def test_tuning_for_a_gpu_that_is_not_there(refuses, model, target):
    refuses("tune", model, "--target", target, "-o", "new.jsonl", words=("no CUDA GPU",))


RESIDUAL = ("--precision", "residual8")
BAD_PRECISIONS = {
    "unknown": (("--precision", "residual16"), ("'residual16'", "residual8, residual4")),
    "threshold alone": (("--threshold", 1), ("threshold", "residual8")),
    "tolerance alone": (("--tolerance", 0.1), ("tolerance", "residual8")),
    "both": ((*RESIDUAL, "--threshold", 1, "--tolerance", 0.1), ("give one",)),
    "negative threshold": ((*RESIDUAL, "--threshold", -1), ("threshold -1", "0 or more")),
    "no number": ((*RESIDUAL, "--threshold", "nan"), ("threshold nan", "number")),
    "no tolerance": ((*RESIDUAL, "--tolerance", 0), ("tolerance 0", "between 0 and 1")),
    "large tolerance": ((*RESIDUAL, "--tolerance", 1), ("tolerance 1", "between 0 and 1")),
}


@pytest.mark.parametrize("verb", ["tune", "compile"])
@pytest.mark.parametrize("case", BAD_PRECISIONS)
def test_bad_precisions(refuses, float_model, verb, case):
    arguments, words = BAD_PRECISIONS[case]
    refuses(verb, float_model, *TUNE, *arguments, words=words)


@pytest.mark.parametrize("arguments", [("tune", "--tasks", "list"), ("tune",), ("compile",)])
def test_precision_of_a_model_without_float_layers(refuses, model, arguments):
    verb, *more = arguments
    words = ("residual8", "no MatMul, Gemm or Conv of float32")
    refuses(verb, model, *TUNE, *RESIDUAL, *more, words=words)


BAD_SHAPES = {
    "x": "cannot read 'x'",
    "x:1,2": "cannot read",
    "x:[1,-2]": "cannot read",
    "x:[1,2": "cannot read",
    "": "empty",
    "other:[1,16,8,8]": "no input 'other'",
    "x:[1,16,8]": "[1,16,8,8]",
    "x:[1,15,8,8]": "[1,16,8,8]",
    "x:[0,16,8,8]": "[1,16,8,8]",
    "x:[2,16,8,8] x:[3,16,8,8]": "'x' stands there twice",
}


@pytest.mark.parametrize("verb", ["tune", "compile"])
@pytest.mark.parametrize("text", BAD_SHAPES)
def test_bad_input_shapes(refuses, model, verb, text):
    words = ("--input-shapes", BAD_SHAPES[text])
    refuses(verb, model, *TUNE, "--input-shapes", text, words=words)


def test_shapes_of_several_inputs():
    expected = {"data:0": (1, 3, 224, 224), "mask": (7,), "scalar": ()}
    assert parse_shapes("data:0:[1,3,224,224] mask:[7], scalar:[]") == expected
    with pytest.raises(InputError, match="cannot read"):
        parse_shapes("data:[1,3] and more")


OUTPUTS = {
    "tune": lambda model, output: (model, "--target", "cpu", "--trials", 4, "-o", output),
    "compile": lambda model, output: (model, "--target", "cpu", "-o", output),
    "quantize": lambda model, output: (model, "-o", output),
}


@pytest.mark.parametrize("verb", OUTPUTS)
def test_outputs_that_cannot_be_written(refuses, float_model, folder, verb):
    (folder / "taken").mkdir()
    (folder / "file").write_text("")
    for output, word in {"absent/x": "absent", "taken": "folder", "file/x": "file"}.items():
        refuses(verb, *OUTPUTS[verb](float_model, output), words=(output, word))


def test_comparisons_that_cannot_be_written(refuses, folder):
    """Before anything is replayed, which takes minutes."""
    (folder / "taken.md").mkdir()
    for output in ("absent/x", "taken"):
        refuses("compare-search", "-o", output, words=(output, "folder"))


@pytest.mark.parametrize("verb", ["compile", "quantize"])
def test_outputs_that_are_the_model(refuses, float_model, verb):
    """Which would be lost."""
    before = float_model.read_bytes()
    refuses(verb, *OUTPUTS[verb](float_model, float_model), words=("which is read", "another"))
    assert float_model.read_bytes() == before


@pytest.mark.parametrize("verb", ["compile", "quantize"])
def test_outputs_that_are_weights_of_the_model(refuses, folder, verb):
    weights = np.random.default_rng(0).normal(0, 0.1, (32, 16, 3, 3)).astype(np.float32).tobytes()
    external(folder / "m.onnx", "weights.bin", weights)
    refuses(verb, *OUTPUTS[verb]("m.onnx", "weights.bin"), words=("weights.bin", "which is read"))
    half = ("prune", "m.onnx", "--sparsity", 0.5, "-o", "weights.bin")
    refuses(*half, words=("weights.bin", "which is read"))


def test_outputs_that_are_other_files_which_are_read(refuses, float_model, model, records, folder):
    (folder / "r.jsonl").write_bytes(records.read_bytes())
    np.savez(folder / "samples.npz", x=np.ones(1))
    half = ("prune", float_model, "--sparsity", 0.5)
    for arguments in (
        ("compile", model, "--target", "cpu", "--tuning-records", "r.jsonl", "-o", "r.jsonl"),
        ("quantize", float_model, "--calibration", "samples.npz", "-o", "samples.npz"),
        (*half, "--gradients", "samples.npz", "-o", "samples.npz"),
        ("logs", "export", "r.jsonl", "-o", "r.jsonl"),
        ("logs", "train", "r.jsonl", "-o", "r.jsonl"),
    ):
        refuses(*arguments, words=("which is read", "another"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("verb", OUTPUTS)
def test_outputs_without_permission(refuses, float_model, folder, verb):
    (folder / "closed").mkdir(mode=0o555)
    refuses(verb, *OUTPUTS[verb](float_model, "closed/x"), words=("closed/x",))


@pytest.mark.parametrize("verb", OUTPUTS)
def test_outputs_that_are_no_files(refuses, float_model, folder, verb):
    os.mkfifo(folder / "pipe")
    refuses(verb, *OUTPUTS[verb](float_model, "pipe"), words=("pipe", "no regular file"))
    assert (folder / "pipe").is_fifo()


@pytest.mark.parametrize("verb", ["compile", "quantize"])
def test_outputs_under_proc(refuses, float_model, verb):
    """Not even root can make a file there."""
    refuses(verb, *OUTPUTS[verb](float_model, "/proc/x"), words=("/proc/",))


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--activation", "int2", ("'int2'", "uint8 or int8 or uint4 or int4")),
        ("--weights", "uint4", ("'uint4'", "int8 or int4")),
        ("--format", "TFLite", ("'TFLite'", "QDQ or QOperator")),
        ("--calibration", "absent.npz", ("absent.npz",)),
    ],
)
def test_quantize_refuses(refuses, float_model, option, value, words):
    refuses("quantize", float_model, "-o", "new.onnx", option, value, words=words)


@pytest.mark.parametrize("command", [(), ("tune",), ("logs", "merge")])
def test_help_has_a_short_name(autoq, command):
    short, long = (autoq(*command, option) for option in ("-h", "--help"))
    assert short.code == 0 and short.out == long.out and short.out.startswith("Usage:")


def test_help_lists_every_tuner():
    assert set(TUNERS) == set(STRATEGIES)


def test_no_command_and_wrong_commands(autoq):
    assert autoq("frobnicate").is_one_line("'frobnicate'", "--help")
    assert autoq("tune").is_one_line("MODEL")
    assert autoq("compile", "m.onnx").is_one_line("--output")
    screen = autoq()
    assert screen.code == 2 and "quantize" in screen.out


@pytest.mark.parametrize("command", [(), ("logs",)])
def test_overviews_say_what_commands_do_in_whole_sentences(autoq, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    listed = autoq(*command, "--help").out.partition("Commands:\n")[2].splitlines()
    assert listed and [line for line in listed if not line.endswith(".") or "..." in line] == []


def test_an_interrupted_command_says_so(autoq, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("autoq.cli.env.facts", interrupted)
    screen = autoq("env")
    assert (screen.code, screen.out, screen.err) == (130, "", "autoq: interrupted\n")
