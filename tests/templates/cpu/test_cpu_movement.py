"""CPU pooling, addition, concatenation, quantise and dequantise against the numpy reference."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_kernels import check, output_bounds, random_array

from autoq.templates.cpu.movement import add, concat, dequantize, pool2d, quantize
from autoq.templates.cpu.movement.template import MovementConfig
from autoq.templates.operators.add import Add
from autoq.templates.operators.concat import Concat
from autoq.templates.operators.dequantize import Dequantize
from autoq.templates.operators.pool2d import Pool2d
from autoq.templates.operators.quantize import Quantize
from autoq.templates.target import Target

RNG = np.random.default_rng(0)


def scalars_of(out_dtype: str, *leading: float) -> list[float]:
    """Leading scalars, then low, high and zero_point of an output dtype."""
    return [*leading, *output_bounds(out_dtype).values()]


def check_scalars(template, workload, activations, scalars, tasks=None) -> None:
    constants = {"scalars": np.array(scalars, np.float32)}
    config = MovementConfig(tasks) if tasks else None
    check(template, workload, activations, constants, config=config)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float32"])
@pytest.mark.parametrize("kind", ["max", "average"])
def test_pool2d(kind, dtype):
    modes = [(True, True), (False, True)]
    if kind == "average":  # a maximum knows no padding
        modes += [(True, False)]
    for requantize, include in modes:
        workload = Pool2d(kind, 2, 9, 7, 83, 3, 2, (2, 1), (1, 0, 1, 1), include, dtype, dtype,
                          requantize)  # fmt: skip
        x = random_array(RNG, workload.x_shape, dtype)
        check_scalars(pool2d.TEMPLATE, workload, [x], scalars_of(dtype, 3, 0.7), tasks=3)


@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_global_average_pool(dtype):
    workload = Pool2d("average", 2, 7, 7, 40, 7, 7, in_dtype=dtype, out_dtype=dtype)
    x = random_array(RNG, workload.x_shape, dtype)
    check_scalars(pool2d.TEMPLATE, workload, [x], scalars_of(dtype, 3, 4.0))


def test_average_between_dtypes():
    workload = Pool2d("average", 1, 6, 6, 16, 2, 2, (2, 2), in_dtype="uint8", out_dtype="int8")
    x = random_array(RNG, workload.x_shape, "uint8")
    check_scalars(pool2d.TEMPLATE, workload, [x], scalars_of("int8", 120, 0.9))


@pytest.mark.parametrize(
    "dtypes",
    [("int8", "int8", "int8"), ("uint8", "int8", "uint8"), ("float32",) * 3,
     ("int8", "float32", "int8")],
)  # fmt: skip
def test_add(dtypes):
    for shape, tasks in (((2, 3, 5, 7), 1), ((1, 9, 9, 67), 4), ((3,), 1)):
        workload = Add(shape, *dtypes)
        activations = [random_array(RNG, shape, dtype) for dtype in dtypes[:2]]
        scalars = scalars_of(dtypes[2], 3, 0.4, -2, 0.7)
        check_scalars(add.TEMPLATE, workload, activations, scalars, tasks)


@pytest.mark.parametrize(("tasks", "sources"), [(1, ()), (3, (1, 0, 1))])
def test_concat(tasks, sources):
    dtypes = ("uint8", "int8") if sources else ("int8", "uint8", "int8")
    workload = Concat(77, (5, 64, 100), dtypes, (True, True, False), sources=sources)
    activations = [random_array(RNG, x.shape, x.dtype) for x in workload.inputs]
    rows = [scalars_of("int8", 3 + i, 0.4 + 0.1 * i) for i in range(3)]
    check_scalars(concat.TEMPLATE, workload, activations, rows, tasks)


def test_concat_of_floats_copies():
    workload = Concat(9, (3, 16), ("float32", "float32"), (False, False), "float32")
    activations = [random_array(RNG, (9, c), "float32") for c in (3, 16)]
    check_scalars(concat.TEMPLATE, workload, activations, [[0, 1, -9, 9, 0]] * 2)


@pytest.mark.parametrize(
    ("layout", "block", "out_dtype"),
    [("NCHW", 1, "int8"), ("NCHW", 2, "uint8"), ("NHWC", 1, "uint8"), ("NHWC", 2, "int8")],
)
def test_quantize(layout, block, out_dtype):
    for channels, planes in ((3 * block * block, False), (16, False), (16, True)):
        workload = Quantize(2, 8, 22, 3, channels, block, layout, out_dtype, planes)
        x = random_array(RNG, workload.x_shape, "float32")
        scalars = scalars_of(out_dtype, 0.03)
        check_scalars(quantize.TEMPLATE, workload, [x], scalars, tasks=3)


def test_quantize_divides_and_rounds_half_to_even():
    workload = Quantize(1, 1, 16, 1, 1)
    x = (np.arange(-8, 8, dtype=np.float32) * 0.05).reshape(workload.x_shape)
    check_scalars(quantize.TEMPLATE, workload, [x], scalars_of("int8", 0.1))


@pytest.mark.parametrize(("layout", "in_dtype"), [("NCHW", "int8"), ("NHWC", "uint8")])
def test_dequantize(layout, in_dtype):
    for h, w, c, tasks in ((5, 7, 33, 3), (1, 1, 33, 1), (4, 4, 1, 1)):
        workload = Dequantize(2, h, w, c, layout, in_dtype)
        x = random_array(RNG, workload.x_shape, in_dtype)
        check_scalars(dequantize.TEMPLATE, workload, [x], [3, 0.05], tasks)


def test_small_work_stays_on_one_thread():
    target = Target("cpu", "x86-64", units=2)
    template = pool2d.TEMPLATE
    assert template.default(Pool2d("max", 1, 4, 4, 8, 2, 2), target).tasks == 1
    large = Pool2d("max", 1, 112, 112, 64, 3, 3, (2, 2), (1, 1, 1, 1))
    assert template.default(large, target).tasks == 2
    assert template.default(large, target) in template.space(large, target)
