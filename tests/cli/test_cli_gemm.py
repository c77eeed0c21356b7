"""`autoq gemm`: one product tuned on the CPU, and every mistake in asking for one."""

import re

import pytest
from gpu_kernels import end_if_compile_only, hopper_target

from autoq.cli import gemm
from autoq.cli.product_workload import ProductRequest, require_kernel
from autoq.devices import Host
from autoq.errors import InputError
from autoq.libraries.beside import Beside
from autoq.libraries.ranking import PeerTime
from autoq.measure.job import Timing
from autoq.records.lines import read_records
from autoq.report.product import Line
from autoq.runtime.cuda.driver import device_count
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.registry import matching
from autoq.templates.target import parse_target

CPU = ("--target", "cpu")

BAD = {
    "no rows": ((0, 32, 48, *CPU), ("M, N, K = 0, 32, 48", "at least 1")),
    "negative": (("--", 64, -32, 48), ("M, N, K = 64, -32, 48", "at least 1")),
    "huge": ((10**30, 32, 48, *CPU), ("at most 2147483647 values",)),
    "huge result": ((10**6, 10**6, 1, *CPU), ("at most 2147483647 values",)),
    "words": (("many", 32, 48), ("'M'", "integer")),
    "two extents": ((64, 32), ("'K'",)),
    "four extents": ((64, 32, 48, 16), ("16",)),
    "unknown type of A": ((64, 32, 48, "--a", "f7"), ("--a 'f7'", "s8, u8, s4, u4, f16, bf16")),
    "unknown type of B": ((64, 32, 48, "--b", "int7"), ("--b 'int7'", "s8, u8")),
    "sums as a factor": ((64, 32, 48, "--a", "s32"), ("--a 's32'", "s8, u8")),
    "two types of floats": ((64, 32, 48, "--a", "f16", "--b", "bf16"), ("--a f16 --b bf16",)),
    "result of integers": ((64, 32, 48, "--out", "f8"), ("--out 'f8'", "s8, u8", "s32, f16, bf16")),
    "result of floats": ((64, 32, 48, "--a", "f16", "--out", "s8"), ("--out 's8'", "f16, bf16")),
    "group of integers": ((64, 32, 48, "--group", 16), ("--group 16", "not to s8", "f16")),
    "group of integers that does not divide": (
        (64, 32, 100, "--out", "f16", "--group", 48), ("group 48", "k = 100"),
    ),
    "bias of sums": ((64, 32, 48, "--out", "s32", "--bias"), ("--bias", "s32")),
    "scaled sums": ((64, 32, 48, "--out", "s32", "--scale", "row"), ("--scale row", "s32")),
    "unknown scale": ((64, 32, 48, "--scale", "block"), ("--scale 'block'", "column, row")),
    "scale of floats": ((64, 32, 48, "--a", "f16", "--scale", "row"), ("--scale", "integers")),
    "unknown residual": ((64, 32, 48, "--residual", "s32"), ("--residual 's32'", "s8, u8")),
    "curved nibbles": ((64, 32, 48, "--out", "s4", "--activation", "silu"), ("silu", "s4")),
    "unknown curve": ((64, 32, 48, "--activation", "tanh"), ("'tanh'", "relu, gelu")),
    "zero points of integers": ((64, 32, 48, "--zero-points"), ("--zero-points", "floats")),
    "activation of integers": ((64, 32, 48, "--activation", "relu"), ("--activation relu",)),
    "group of floats": (
        (64, 32, 48, "--a", "f16", "--b", "f16", "--group", 16), ("--group 16", "integers"),
    ),
    "zero points of floats": (
        (64, 32, 48, "--a", "bf16", "--b", "bf16", "--zero-points"), ("--zero-points", "integers"),
    ),
    "group that does not divide": (
        (64, 32, 100, "--a", "f16", "--group", 48), ("group 48", "k = 100"),
    ),
    "negative group": ((64, 32, 64, "--a", "f16", "--group", -8), ("group -8",)),
    "unknown activation": (
        (64, 32, 64, "--a", "f16", "--activation", "tanh"), ("'tanh'", "relu, gelu"),
    ),
    "unknown target": ((64, 32, 48, "--target", "tpu"), ("'tpu'", "cuda:sm_80")),
    "unknown tuner": ((64, 32, 48, *CPU, "--tuner", "magic"), ("'magic'", "diverse")),
    "no trials": ((64, 32, 48, *CPU, "--trials", 0), ("--trials 0", "at least 1")),
    "no time": ((64, 32, 48, *CPU, "--time-budget", 0), ("--time-budget 0", "positive")),
    "cold CPU": ((64, 32, 48, *CPU, "--cold"), ("--cold", "CUDA")),
    "negative jobs": ((64, 32, 48, *CPU, "--jobs", -1), ("--jobs",)),
    "negative device": ((64, 32, 48, "--device", -1), ("--device",)),
    "absent records": ((64, 32, 48, *CPU, "--tuning-records", "no.jsonl"), ("no.jsonl", "No such")),
    "absent folder": ((64, 32, 48, *CPU, "-o", "absent/x.jsonl"), ("absent",)),
    "four bits on the CPU": (
        (64, 32, 48, *CPU, "--a", "s4", "--b", "s4"), ("no kernel for cpu", "u8 x s8 to s8"),
    ),
    "unsigned weights": (
        (64, 32, 48, "--target", "cuda:sm_90a", "--b", "u8"),
        ("s8 [64, 48] x u8 [48, 32]", "no kernel for cuda sm_90a", "f16, bf16"),
    ),
    "bfloat16 on a T4": (
        (64, 32, 48, "--target", "cuda:sm_75", "--a", "bf16"), ("cuda sm_75", "s8, s4"),
    ),
    "odd group": (
        (64, 32, 96, "--target", "cuda:sm_90a", "--a", "f16", "--group", 48),
        ("in groups of 48", "M, N, K = 64, 32, 96 with --group 32 would do"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_gemm_refuses(refuses, case):
    arguments, words = BAD[case]
    refuses("gemm", *arguments, words=words)


@pytest.mark.skipif(device_count() > 0, reason="there is a CUDA GPU")
def test_a_gpu_that_is_not_there(refuses):
    refuses("gemm", 64, 32, 48, "--target", "cuda", words=("no CUDA GPU",))


def test_help_names_every_type(autoq):
    screen = autoq("gemm", "--help")
    assert screen.code == 0
    for word in (
        "A [M, K] times B [K, N]",
        "s8, u8, s4, u4, f16 or bf16",
        "--group",
        "--zero-points",
        "--out",
    ):
        assert word in re.sub(r"\s+", " ", screen.out)


def test_a_product_on_the_cpu(autoq, folder):
    screen = autoq("gemm", 64, 32, 48, "--a", "u8", "--b", "s8", *CPU, "--trials", 4)
    assert screen.code == 0, screen
    assert "u8 [64, 48] x s8 [48, 32] -> s8 [64, 32], 0.000197 Gop" in screen.out
    for name in ("untuned", "best"):
        assert re.search(rf"^{name} +\d[\d.]* us +\d", screen.out, re.MULTILINE), screen.out
    assert "cuBLASLt: none on a CPU" in screen.out
    assert "TOPS" in screen.out and "4 trials measured" in screen.out
    assert not list(folder.iterdir())


def test_a_product_of_activations_quantised_as_they_come(autoq, folder):
    screen = autoq(
        "gemm", 8, 16, 32, *CPU, "--out", "bf16", "--scale", "row,column", "--bias",
        "--activation", "gelu", "--residual", "bf16", "--group", 16, "--trials", 1,
        "-o", "gemm.jsonl",
    )  # fmt: skip
    assert screen.code == 0 and "-> bf16 [8, 16]" in screen.out, screen
    (record, *_) = read_records("gemm.jsonl").records
    assert record.workload == Gemm(
        8, 16, 32, "int8", "int8",
        Epilogue(
            "bfloat16", "bfloat16", row_scale=True, float_bias=True, activation="gelu",
            scale_group=16,
        ),
    )  # fmt: skip


def test_a_table_is_the_way_of_an_activation_to_bytes():
    request = ProductRequest(64, 32, 48, "s8", "s8", "u8", activation="silu", scale="row")
    assert request.workload().epilogue == Epilogue("uint8", table=True, row_scale=True)


def test_a_mixed_product_on_the_cpu(autoq):
    screen = autoq(
        "gemm", 9, 32, 64, "--a", "bf16", "--b", "s4", "--group", 32, *CPU, "--trials", 2
    )
    assert screen.code == 0, screen
    assert "float_gemm_cpu" in screen.out and "TFLOPS" in screen.out


def test_an_output_is_resumed(autoq, folder):
    command = ("gemm", 8, 16, 32, "--a", "uint8", *CPU, "--out", "s32", "-o", "gemm.jsonl")
    assert "2 trials measured" in autoq(*command, "--trials", 2).out
    screen = autoq(*command, "--trials", 3)
    assert screen.code == 0 and "1 trials measured" in screen.out, screen
    assert "2 of them in the output already" in screen.out
    assert "records in gemm.jsonl" in screen.out
    records = [record for record in read_records("gemm.jsonl").records if not record.confirmed]
    assert len(records) == 3
    assert {record.workload for record in records} == {
        Gemm(8, 16, 32, "uint8", "int8", Epilogue("int32"))
    }


def test_a_run_without_a_time_fails(autoq):
    screen = autoq("gemm", 64, 32, 48, *CPU, "--time-budget", 0.001)
    assert screen.code == 1 and screen.err == "", screen
    assert re.search(r"^best +- +- +- +none was measured", screen.out, re.MULTILINE), screen.out


def test_the_report_outlives_an_interrupted_library(autoq, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(gemm, "_cublaslt", interrupted)
    screen = autoq("gemm", 8, 16, 32, *CPU, "--trials", 1)
    assert screen.code == 130
    assert "cuBLASLt: not timed" in screen.out and "1 trials measured" in screen.out


def test_the_line_of_the_library(monkeypatch):
    host = Host(parse_target("cuda:sm_90a"), "a GPU")
    asked = []

    def beside(*arguments):
        asked.append(arguments)
        return found

    monkeypatch.setattr("autoq.libraries.beside.cublaslt_beside", beside)
    found = "libcublasLt was not found"
    assert gemm._cublaslt(Gemm(8, 8, 8), host, True, 1) == "cuBLASLt: libcublasLt was not found"
    assert asked == [(Gemm(8, 8, 8), Timing(cold=True), 1)]
    found = Beside(PeerTime(2e-6, "algorithm 66", 7, 0.0), "13.1.0", "s8 x s8 -> s8")
    assert gemm._cublaslt(Gemm(8, 8, 8), host, False, 0) == Line(
        "cuBLASLt 13.1.0", 2e-6, "algorithm 66, the best of 7; s8 x s8 -> s8"
    )


WORKLOADS = {
    ("s8", "s8"): Gemm(3, 5, 8),
    ("u8", "s4"): Gemm(3, 5, 8, "uint8", "int4"),
    ("f16", "s8"): FloatGemm(3, 5, 8),
    ("bfloat16", "u4"): FloatGemm(3, 5, 8, "bfloat16", "uint4", "bfloat16"),
    ("f16", "f16"): FloatGemm(3, 5, 8, "float16", "float16"),
    ("s8", "f16"): FloatGemm(5, 3, 8, weight_left=True),
}


@pytest.mark.parametrize("types", WORKLOADS)
def test_either_factor_may_be_the_narrow_one(types):
    workload = ProductRequest(3, 5, 8, *types).workload()
    assert workload == WORKLOADS[types]
    assert workload.outputs[0].shape == (3, 5)


def test_options_reach_the_workload():
    request = ProductRequest(64, 32, 128, "f16", "u4", "bf16", 64, True, True, "gelu")
    expected = FloatGemm(64, 32, 128, "float16", "uint4", "bfloat16", 64, True, True, "gelu")
    assert request.workload() == expected


def test_what_would_do_is_taken():
    """The extents that a refusal names are those of a product that a kernel takes."""
    target = parse_target("cuda:sm_90a")

    def takes(workload):
        return bool(matching(workload, target))

    for m, n, k in ((7, 9, 11), (64, 33, 40), (1, 1, 1), (65, 64, 40)):
        request = ProductRequest(m, n, k, "s4", "f16")
        if takes(request.workload()):
            require_kernel(request, target, takes)
            continue
        with pytest.raises(InputError, match="would do") as refused:
            require_kernel(request, target, takes)
        named = re.search(r"M, N, K = (\d+), (\d+), (\d+) would", str(refused.value))
        require_kernel(ProductRequest(*map(int, named.groups()), "s4", "f16"), target, takes)


PRODUCTS = {
    "s8": (("--a", "s8", "--b", "s8"), "TOPS", r"algorithm \d+, .*; s8 x s8 -> s8$"),
    "sums": (("--a", "s8", "--b", "s8", "--out", "s32"), "TOPS", r"algorithm \d+, .*-> s32$"),
    "f16 x s8": (
        ("--a", "f16", "--b", "s8"), "TFLOPS",
        r"algorithm \d+, .*; f16 x f16 -> f16, the weight dequantised beforehand$",
    ),
    "u4 x bf16": (
        ("--a", "u4", "--b", "bf16", "--group", 128, "--bias", "--cold"), "TFLOPS",
        r"algorithm \d+, .*; bf16 x bf16 -> bf16, .*, without bias$",
    ),
}  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("case", PRODUCTS)
def test_a_product_on_a_gpu_beside_cublaslt(autoq, folder, case):
    end_if_compile_only()
    hopper_target()
    types, unit, how = PRODUCTS[case]
    screen = autoq("gemm", 384, 256, 512, *types, "--target", "cuda", "--trials", 3)
    if "libcublasLt was not found" in screen.out:
        pytest.skip("no cuBLASLt")
    assert screen.code == 0, screen
    assert unit in screen.out.split() and "3 trials measured, failures: none" in screen.out, screen
    for name in ("untuned", "best", r"cuBLASLt [\d.]+"):
        line = rf"^{name} +\d[\d.]* us +\d[\d.e+]* +\d+%"
        assert re.search(line, screen.out, re.MULTILINE), screen.out
    assert re.search(how, screen.out, re.MULTILINE), screen.out
