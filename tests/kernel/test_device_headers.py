"""nvcc with the headers that kernels need, and with all of the toolkit's."""

from __future__ import annotations

from pathlib import Path

import pytest
from with_nvcc import needs_nvcc

from autoq.errors import BuildError
from autoq.kernel import nvcc
from autoq.kernel.device_headers import DEVICE_HEADERS
from autoq.kernel.lowering import cuda_source, lower
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.registry import matching
from autoq.templates.target import parse_target

MATHS = """
extern "C" __global__ void __launch_bounds__(64) main_kernel(float* y, const float* x, int n) {
  __shared__ float s[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = __ldg(x + i), w = __shfl_xor_sync(0xffffffffu, v, 1);
  s[threadIdx.x] = expf(v) + logf(w) * tanhf(v) + erff(w) - powf(v, w) / sqrtf(fabsf(w));
  __syncthreads();
  const float a = s[63 - threadIdx.x] + rintf(v) + floorf(w) + abs(v) + max(i, n) + min(i, n);
  y[i] = fmaxf(a, fminf(v, w)) + __dp4a(i, n, __float2int_rn(v));
  atomicAdd(y, __fdividef(a, w));
}
"""
TENSOR_MAP = """
#include <cstdint>
#include <cuda.h>
extern "C" __global__ void main_kernel(
    const __grid_constant__ CUtensorMap first, uint64_t* y,
    const __grid_constant__ CUtensorMap map) {
  asm volatile("prefetch.tensormap [%0];" :: "l"(&map));
  y[threadIdx.x] = reinterpret_cast<const uint64_t*>(&first)[threadIdx.x];
}
"""


def convolution(name: str, arch: str) -> str:
    """CUDA source of a template's default for a small convolution."""
    target = parse_target(f"cuda:{arch}")
    workload = Conv2d(2, 9, 9, 64, 64, 3, 3, padding=(1, 1, 1, 1))
    template = next(found for found in matching(workload, target) if found.name == name)
    function = template.build(workload, template.default(workload, target), target)
    return cuda_source(lower(function, target), target)


def everything(arch: str) -> str:
    """All that the headers declare for an architecture."""
    return "".join(nvcc._declarations(nvcc.find_nvcc(), arch)._texts)


@needs_nvcc
@pytest.mark.parametrize(
    ("source", "arch"),
    [
        (lambda: MATHS, "sm_75"),
        (lambda: MATHS, "sm_90a"),
        (lambda: TENSOR_MAP, "sm_90a"),
        (lambda: convolution("conv2d_mma_sync", "sm_80"), "sm_80"),
        (lambda: convolution("conv2d_halo", "sm_90a"), "sm_90a"),
    ],
    ids=["maths 75", "maths 90a", "tensor maps", "mma_sync", "halo"],
)
def test_machine_code_is_that_of_all_headers(source, arch):
    text = source()
    needed = nvcc.needed_headers(text, arch)
    assert 5 * len(needed["cuda_runtime.h"]) < len(everything(arch))
    code, report, short = nvcc.run_nvcc(text, arch, needed)
    assert code == 0, report
    code, report, full = nvcc.run_nvcc(text, arch, {})
    assert code == 0, report
    assert short == full


HALF = """
#include <cuda_fp16.h>
#include <type_traits>
extern "C" __global__ void main_kernel(half* x) {
  static_assert(std::is_same_v<decltype(x), half*>);
  x[threadIdx.x] = __hmul(x[threadIdx.x], x[0]);
}
"""
POWER = """
extern "C" __global__ void main_kernel(double* x, const float* y, int n) { *x = pow(*y, n); }
"""
MISSING = """
extern "C" __global__ void main_kernel(bool* x, const float* y) { *x = isnan(*y); }
"""


@needs_nvcc
@pytest.mark.parametrize("source", [POWER, MISSING], ids=["power", "isnan"])
def test_a_source_that_needs_more_gets_all_headers(source):
    """Powers of a float and an integer, for one, are of doubles in the C++ library only."""
    assert nvcc.run_nvcc(source, "sm_80", nvcc.needed_headers(source, "sm_80"))[0] != 0
    _, _, full = nvcc.run_nvcc(source, "sm_80", {})
    assert nvcc.compile_cuda(source, "sm_80", None).cubin == full


@pytest.mark.parametrize("name", ["no_nvcc_here", "false"])
def test_without_a_preprocessor_all_declarations_are_taken(name, monkeypatch):
    monkeypatch.setattr(nvcc, "find_nvcc", lambda: name)
    assert nvcc.needed_headers(MATHS, "sm_80") == DEVICE_HEADERS


@needs_nvcc
def test_a_source_that_includes_others_gets_the_toolkits_own():
    headers = nvcc.needed_headers(HALF, "sm_80")
    assert headers == {} and nvcc.run_nvcc(HALF, "sm_80", headers)[0] == 0


@pytest.mark.parametrize(
    ("said", "raised"),
    [
        ("kernel.cu(3): error: no x", "of all headers"),
        ("cuda_runtime.h:9:10: fatal error: x.h: No such file or directory", "of all headers"),
        ("ptxas fatal   : Unresolved extern function 'x'", "of all headers"),
        ("ptxas error   : Entry function uses too much shared data", "too much shared data"),
    ],
)
def test_the_complaint_about_a_source_is_that_of_all_headers(monkeypatch, said, raised):
    asked = []

    def run(source, arch, headers):
        asked.append(bool(headers))
        return 1, said if headers else "kernel.cu(9): error: of all headers", b""

    monkeypatch.setattr(nvcc, "run_nvcc", run)
    monkeypatch.setattr(nvcc, "needed_headers", lambda source, arch: DEVICE_HEADERS)
    with pytest.raises(BuildError, match=raised):
        nvcc.compile_cuda("", "sm_80", None)
    assert asked == ([True] if raised in said else [True, False])


@needs_nvcc
def test_headers_do_not_outlive_nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    nvcc.run_nvcc('extern "C" __global__ void main_kernel() {}', "sm_80", DEVICE_HEADERS)
    assert not list(tmp_path.iterdir())
