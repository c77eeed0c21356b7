"""`autoq gemm`: one product tuned on the CPU, and every mistake in asking for one."""

import re
from dataclasses import replace

import pytest
from gemm_mistakes import CPU, MISTAKES
from gpu_kernels import end_if_compile_only, hopper_target

from autoq.cli import gemm
from autoq.cli.product_refusal import require_kernel
from autoq.cli.product_workload import ProductRequest
from autoq.devices import Host
from autoq.errors import InputError
from autoq.libraries.beside import Beside, description
from autoq.libraries.ranking import PeerTime
from autoq.measure.job import Timing
from autoq.records.lines import read_records
from autoq.report.product import Line
from autoq.runtime.cuda.driver import device_count
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.registry import matching
from autoq.templates.target import parse_target


@pytest.mark.parametrize("case", MISTAKES)
def test_gemm_refuses(refuses, case):
    arguments, words = MISTAKES[case]
    refuses("gemm", *arguments, words=words)


@pytest.mark.skipif(device_count() > 0, reason="there is a CUDA GPU")
def test_a_gpu_that_is_not_there(refuses):
    refuses("gemm", 64, 32, 48, "--target", "cuda", words=("no CUDA GPU",))


def test_help_names_every_type(autoq):
    screen = autoq("gemm", "--help")
    assert screen.code == 0
    for word in (
        "A [M, K] times B [K, N]",
        "s8, u8, s4, u4, f16, bf16, f32 or e4m3",
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


def test_a_batch_of_products_of_bytes_on_the_cpu(autoq):
    screen = autoq("gemm", 9, 7, 20, "--a", "u8", "--batch", 3, *CPU, "--trials", 1)
    assert screen.code == 0, screen
    assert "3 times u8 [9, 20] x s8 [20, 7] -> s8 [9, 7], 7.56e-06 Gop" in screen.out
    assert re.search(r"^untuned .*batched_gemm_", screen.out, re.MULTILINE), screen.out
    assert "cuBLASLt: none on a CPU" in screen.out


def test_a_batch_of_integers_is_of_two_activations():
    request = ProductRequest(64, 32, 48, "s8", "u8", "u8", activation="silu", batch=3)
    assert request.workload() == BatchedGemm(
        3, 64, 32, 48, in_dtype="int8", other_dtype="uint8", epilogue=Epilogue("uint8", table=True)
    )
    assert description(request.workload()) == "s8 x s8 -> s8, the nearest types that it has"


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
    request = ProductRequest(64, 32, 48, "s8", "s8", "u8", activation="silu", scale="row,column")
    assert request.workload().epilogue == Epilogue("uint8", table=True, row_scale=True)


def test_one_scale_for_all_sums():
    request = ProductRequest(64, 32, 48, "s8", "s8", scale="one")
    assert request.workload() == Gemm(64, 32, 48, epilogue=Epilogue(uniform=True))
    assert description(request.workload()) == "s8 x s8 -> s8"
    for more in ({"bias": True}, {"residual": "s8"}, {"out": "s32"}, {"activation": "silu"}):
        with pytest.raises(InputError, match=r"--scale one: |for bytes out"):
            replace(request, **more).workload()


def test_products_of_floats_with_scales_of_rows_residuals_and_batches():
    request = ProductRequest(
        64, 32, 48, "e4m3", "e4m3", scale="row,column", residual="f16", batch=3
    )
    assert request.workload() == FloatGemm(
        64, 32, 48, "float8_e4m3fn", "float8_e4m3fn", "float16", x_scale=True, residual=True,
        batch=3,
    )  # fmt: skip
    assert str(request) == "3 times e4m3 [64, 48] x e4m3 [48, 32] -> f16 [64, 32]"
    left = ProductRequest(64, 32, 48, "s8", "bf16", scale="row,column").workload()
    assert left == FloatGemm(
        32, 64, 48, "bfloat16", "int8", "bfloat16", weight_left=True, x_scale=True
    )
    assert ProductRequest(64, 32, 48, "f16", "f16", scale="row").workload().x_scale


def test_a_mixed_product_on_the_cpu(autoq):
    screen = autoq(
        "gemm", 9, 32, 64, "--a", "bf16", "--b", "s8", "--group", 32, *CPU, "--trials", 2
    )
    assert screen.code == 0, screen
    assert "float_gemm_cpu" in screen.out and "TFLOPS" in screen.out


@pytest.mark.parametrize(
    ("group", "template"), [(32, "float_gemm_nibbles"), (20, "float_gemm_cpu")]
)
def test_a_product_of_float32_and_four_bits_on_the_cpu(autoq, group, template):
    screen = autoq(
        "gemm", 9, 32, 160, "--a", "f32", "--b", "u4", "--zero-points", "--group", group, *CPU,
        "--trials", 1,
    )  # fmt: skip
    assert screen.code == 0, screen
    assert f"f32 [9, 160] x u4 [160, 32] in groups of {group} -> f32 [9, 32]" in screen.out
    assert re.search(rf"^untuned .*{template}", screen.out, re.MULTILINE), screen.out


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
def test_tensor_cores_take_no_float32(arch):
    target = parse_target(f"cuda:{arch}")
    with pytest.raises(InputError, match=r"f32 .* no kernel for cuda"):
        require_kernel(
            ProductRequest(64, 32, 48, "f32", "s4"), target, lambda w: bool(matching(w, target))
        )


def test_an_output_is_resumed(autoq, folder):
    command = ("gemm", 8, 16, 32, "--a", "uint8", *CPU, "--out", "s32", "-o", "gemm.jsonl")
    assert "2 trials measured" in autoq(*command, "--trials", 2).out
    screen = autoq(*command, "--trials", 3)
    assert screen.code == 0 and "1 trial measured" in screen.out, screen
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
    assert "cuBLASLt: not timed" in screen.out and "1 trial measured" in screen.out


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
    "batch": (("--batch", 3), "TOPS", r"algorithm \d+, .*; s8 x s8 -> s8$"),
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
