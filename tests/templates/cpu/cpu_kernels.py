"""Random layers, and running a template's kernel for them on this host."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm.runtime
from tvm.tirx import PrimFunc

from autoq.kernel.compile import compile_kernel, compile_program
from autoq.runtime.cpu.kernel import LoadedCpuKernel
from autoq.templates.arrays.element import numpy_dtype
from autoq.templates.base import Template
from autoq.templates.epilogue import pack_scalars
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm
from autoq.templates.oracle.reference import reference
from autoq.templates.target import Target, host_cpu
from autoq.templates.workload import Workload

# Output zero points away from the middle of the range, so that one forgotten shows.
ZERO_POINT = {"int8": 5.0, "uint8": 130.0, "float32": 0.0, "int32": 0.0}


@functools.cache
def host() -> Target:
    """The target of this machine."""
    return host_cpu()


def random_array(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Uniform over all integers of a dtype, extremes included; normal floats."""
    if dtype == "float32":
        return (rng.standard_normal(shape) * 3).astype(dtype)
    bounds = np.iinfo(dtype)
    return rng.integers(bounds.min, bounds.max + 1, shape).astype(dtype)


def output_bounds(dtype: str) -> dict[str, float]:
    """low, high and zero_point of a quantised output; a narrow clamp for float32."""
    if dtype == "float32":
        return {"low": -2.0, "high": 5.0, "zero_point": 0.0}
    bounds, zero_point = np.iinfo(dtype), ZERO_POINT[dtype]
    return {"low": bounds.min - zero_point, "high": bounds.max - zero_point,
            "zero_point": zero_point}  # fmt: skip


def random_layer(
    workload: Conv2d | Gemm, seed: int = 0, x_zero_point: int = -7
) -> tuple[list[np.ndarray], dict[str, Any]]:
    """Activations and constants whose outputs use most of the output's range."""
    rng = np.random.default_rng(seed)
    epilogue, k = workload.epilogue, workload.weight_shape[0]
    activations = [random_array(rng, workload.x_shape, workload.in_dtype)]
    if epilogue.residual_dtype:
        activations.append(random_array(rng, workload.y_shape, epilogue.residual_dtype))
    constants: dict[str, Any] = {
        "weight": random_array(rng, workload.weight_shape, workload.weight_dtype)
    }
    if workload.in_dtype == "float32":
        constants["bias"] = rng.standard_normal(k).astype(np.float32)
        constants["scalars"] = pack_scalars(low=-2.0, high=50.0)
        return activations, constants
    (shape,) = (spec.shape for spec in workload.constants if spec.name == "bias")
    constants["bias"] = rng.integers(-5000, 5000, shape).astype(np.int32)
    constants["x_zero_point"] = abs(x_zero_point) if workload.in_dtype == "uint8" else x_zero_point
    if epilogue.out_dtype != "int32":
        spread = 74.0 * 74.0 * np.sqrt(np.prod(workload.weight_shape[1:]))
        constants["scale"] = (rng.uniform(0.5, 1.5, k) * 60 / spread).astype(np.float32)
        if workload.epilogue.concatenates:
            constants["scale"][::3] = 0
    bounds = {} if epilogue.out_dtype == "int32" else output_bounds(epilogue.out_dtype)
    constants["scalars"] = pack_scalars(
        **bounds, accumulator_low=-100, accumulator_high=90, accumulator_scale=0.7,
        residual_scale=0.37, residual_zero_point=3,
    )  # fmt: skip
    return activations, constants


def run(
    template: Template,
    workload: Workload,
    config: Any,
    activations: list[np.ndarray],
    constants: dict[str, Any],
    target: Target | None = None,
) -> np.ndarray:
    """The kernel's output, computed over poison; fails when it wrote outside its buffers."""
    target = target or host()
    program = template.program(workload, config, target)
    specs = (*workload.inputs, *template.packed(workload, config), *workload.outputs)
    kernel = LoadedCpuKernel(compile_program(program, specs, target))
    packed = template.constants(workload, config, constants)
    poison = np.full(workload.y_shape, 77, numpy_dtype(reference_dtype(workload)))
    spaces = [
        np.full(item.spec.shape, 77, numpy_dtype(item.spec.dtype)) for item in program.workspaces
    ]
    guarded = [Guarded(array) for array in (*activations, *packed, poison, *spaces)]
    kernel.bind([buffer.array for buffer in guarded])()
    assert all(buffer.intact for buffer in guarded), f"{workload} {config} wrote out of bounds"
    return guarded[len(activations) + len(packed)].array


class Guarded:
    """A 64-byte aligned copy of an array between two guards of 4 KB."""

    def __init__(self, array: np.ndarray) -> None:
        self._bytes = np.full(array.nbytes + 8192 + 64, 0x5A, np.uint8)
        self._start = 4096 - self._bytes.ctypes.data % 64 + 64
        self._end = self._start + array.nbytes
        self.array = self._bytes[self._start : self._end].view(array.dtype).reshape(array.shape)
        self.array[...] = array

    @property
    def intact(self) -> bool:
        """Whether both guards still hold what they held."""
        guards = self._bytes[: self._start], self._bytes[self._end :]
        return all((guard == 0x5A).all() for guard in guards)


def reference_dtype(workload: Workload) -> str:
    """dtype of a workload's output."""
    epilogue = getattr(workload, "epilogue", None)
    return epilogue.out_dtype if epilogue else getattr(workload, "out_dtype", "float32")


def check(
    template: Template,
    workload: Workload,
    activations: list[np.ndarray],
    constants: dict[str, Any],
    config: Any = None,
    target: Target | None = None,
) -> None:
    """Runs the kernel and compares every element with the reference; integers exactly."""
    target = target or host()
    assert template.matches(workload, target)
    config = config or template.default(workload, target)
    expected = reference(workload, activations, constants)
    found = run(template, workload, config, activations, constants, target)
    if expected.dtype == np.float32:
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    else:
        np.testing.assert_array_equal(found, expected, err_msg=f"{workload} {config}")


def check_layer(template: Template, workload: Conv2d | Gemm, **options: Any) -> None:
    """`check` over a random layer."""
    check(template, workload, *random_layer(workload), **options)


def small_tile(template: Template, workload: Conv2d | Gemm, target: Target | None = None) -> Any:
    """A configuration of a convolution of two pixels, or of one where there is no other.

    LLVM takes the longer the more pixels a tile has: each is finished in instructions of its own.
    """
    legal = list(template.space(workload, target or host()).enumerate())
    return max((config for config in legal if config.pixels <= 2), key=lambda c: c.pixels)


HASWELL = Target("cpu", "haswell", units=2, avx2=True)
"""A CPU with AVX2 and no AVX512, for hosts that have both."""


def run_function(
    function: PrimFunc, inputs: Sequence[np.ndarray], shape: tuple[int, ...], dtype: str,
    target: Target | None = None,
) -> np.ndarray:  # fmt: skip
    """The only output of a kernel over aligned copies of `inputs`, poisoned before it runs."""
    arrays = [tvm.runtime.tensor(array) for array in inputs]
    poison = np.full(shape, 77, dtype)
    output = tvm.runtime.tensor(poison)
    LoadedCpuKernel(compile_kernel(function, target or host()))(*arrays, output)
    return output.numpy()
