"""Columns that clusters hold while they are quantised, on the emulator, and how many take part."""

from __future__ import annotations

import numpy as np
import pytest
from ptx.kernels import MODES, assert_right_emulated, run_program
from with_nvcc import needs_nvcc

from autoq.kernel.compile import compile_program
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.residual.quantise.panels import Panels, panels_of
from autoq.templates.cuda.device.residual.quantise.quantise_columns import ColumnsQuantised
from autoq.templates.cuda.device.residual.quantise.quantise_panels import TAKEN, panels_kernel
from autoq.templates.cuda.device.residual.turned import turned, turned_shape
from autoq.templates.cuda.device.residual.weight_layout import WeightLayout
from autoq.templates.cuda.wgmma.residual_gemm_wgmma import TEMPLATE
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.oracle.residual_quantisation import largest_integer, quantise
from autoq.templates.program import Initially, Program, Stage, Workspace
from autoq.templates.target import parse_target

HOPPER = parse_target("cuda:sm_90a")


# Panels that are taken in several rounds by fewer clusters, or all at once; columns that are no
# whole vectors; rows that end within a unit.
@needs_nvcc
@pytest.mark.parametrize(
    ("length", "columns", "panels", "by_k"),
    [
        (250, 150, Panels(64, 1, 10, 3), True),
        (1000, 100, Panels(64, 4, 7, 7), True),
        (2040, 45, Panels(128, 4, 3, 1), True),
        (300, 132, Panels(128, 1, 9, 4), False),
        (250, 150, Panels(128, 1, 5, 2, 32), True),
        (1000, 101, Panels(128, 4, 4, 4, 32), True),
        (300, 132, Panels(256, 1, 5, 2, 32), False),
        (4000, 70, Panels(128, 16, 3, 1, 32), True),
    ],
)
@pytest.mark.parametrize("bits", [8, 4])
def test_columns_are_quantised(
    length: int, columns: int, panels: Panels, by_k: bool, bits: int
) -> None:
    rng = np.random.default_rng(length)
    x = rng.standard_normal((length, columns), np.float32)
    x[:, columns // 2] = 0
    units = -(-length // 16)
    layout = WeightLayout(32, 64, -(-length // 64), 4, True)
    peaks = -(-units // 16) * 16
    kernel = ColumnsQuantised(columns, length, largest_integer(bits), layout, True, peaks, 0)
    size = layout.size(columns)
    residual = turned_shape(columns, length) if by_k else (size,)
    written = {
        "values": ((size,), "int8"), "residual": (residual, "int8"),
        "scale": ((columns,), "float32"), "sums": ((columns,), "int32"),
        "peaks": ((columns, peaks), "uint8"),
    }  # fmt: skip
    specs = [TensorSpec(name, *spec) for name, spec in written.items()]
    given = TensorSpec("x", x.shape, "float32")
    function = panels_kernel(kernel, panels, by_k, [given, None, TAKEN, *specs], HOPPER)
    stage = Stage(function, ("x", TAKEN.name), (*written, TAKEN.name))
    program = Program((stage, stage), (Workspace(TAKEN, Initially.STAYS_ZERO),))
    expected = quantise(x, bits, axis=0)
    sizes = np.abs(expected.values.astype(np.int32))
    for mode in MODES.values():
        found = run_program(program, HOPPER, {"x": x}, written, mode)
        np.testing.assert_array_equal(found["scale"], expected.scale[0])
        np.testing.assert_array_equal(found["sums"], sizes.sum(axis=0))
        _assert_packed(found["values"], expected.values, layout)
        if by_k:
            rows = _unturned(found["residual"])[:columns]
            np.testing.assert_array_equal(rows, expected.residual.T)
        else:
            _assert_packed(found["residual"], expected.residual, layout)
        whole = np.pad(sizes, ((0, 16 * units - length), (0, 0)))
        largest = whole.reshape(units, 16, columns).max(axis=1).T
        np.testing.assert_array_equal(found["peaks"][:, :units], largest)


@needs_nvcc
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(("columns", "length"), [(1300, 2064), (8192, 8192)])
def test_panels_of_an_h200_spill_nothing(columns: int, length: int, wide: bool) -> None:
    panels = panels_of(columns, length, HOPPER, wide)
    assert panels is not None
    units = -(-length // 16)
    layout = WeightLayout(256, 128, -(-length // 128), 4, True)
    peaks = -(-units // 16) * 16
    kernel = ColumnsQuantised(columns, length, 127, layout, True, peaks, 0)
    written = [
        TensorSpec("values", (layout.size(columns),), "int8"),
        TensorSpec("residual", turned_shape(columns, length), "int8"),
        TensorSpec("scale", (columns,), "float32"),
        TensorSpec("sums", (columns,), "int32"),
        TensorSpec("peaks", (columns, peaks), "uint8"),
    ]
    x = TensorSpec("x", (length, columns), "float32")
    function = panels_kernel(kernel, panels, True, [x, None, TAKEN, *written], HOPPER)
    names = tuple(spec.name for spec in written)
    stage = Stage(function, (x.name, TAKEN.name), (*names, TAKEN.name))
    program = Program((stage,), (Workspace(TAKEN, Initially.STAYS_ZERO),))
    assert compile_program(program, [x, *written], HOPPER).spill_bytes == 0


@needs_nvcc
def test_warps_far_ahead_of_others_take_the_same_panels() -> None:
    """Where values are all that is written, no sum of a panel holds back who asks for the next."""
    workload = ResidualGemm(1, 1300, 2064, correction="none")
    assert_right_emulated(TEMPLATE, workload, TEMPLATE.default(workload, HOPPER), HOPPER, ["eager"])


def _assert_packed(found: np.ndarray, values: np.ndarray, layout: WeightLayout) -> None:
    """Packed [size] holds values [k, n]."""
    k, n = values.shape
    at = layout.address(np.arange(n)[:, None], np.arange(k))
    np.testing.assert_array_equal(found[at], values.T)


def _unturned(found: np.ndarray) -> np.ndarray:
    """[n, k] of [pieces, k, columns of a piece]."""
    return found.transpose(0, 2, 1).reshape(-1, found.shape[1])


@pytest.mark.parametrize(("columns", "shape"), [(150, (3, 33, 64)), (64, (1, 33, 64))])
def test_turned_residuals_are_pieces(columns: int, shape: tuple[int, ...]) -> None:
    residual = np.random.default_rng(1).integers(-127, 128, (columns, 33), np.int8)
    found = turned(residual)
    assert found.shape == shape
    np.testing.assert_array_equal(_unturned(found)[:columns], residual)
    assert not _unturned(found)[columns:].any()


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("size", [16, 1024, 2048, 4096, 8192])
def test_clusters_take_all_panels(size: int, wide: bool) -> None:
    panels = panels_of(size, size, HOPPER, wide)
    assert panels is not None and panels.columns == (32 if wide else 16)
    assert panels.columns * panels.count >= size
    assert 64 * panels.threads // panels.columns * panels.blocks >= size
    assert panels.clusters <= panels.count
    assert panels.rounds == (size > (1024 if wide else 2048))
    assert panels.clusters * panels.blocks * panels.threads <= HOPPER.units * 512


def test_an_h200_runs_all_clusters_together() -> None:
    """Its GPCs have room for 30 clusters of 8 and 14 of 16, as its driver says of these kernels."""
    for wide, clusters in ((False, 30), (True, 14)):
        panels = panels_of(8192, 8192, HOPPER, wide)
        assert panels is not None and panels.clusters == clusters


def test_longer_columns_are_read_twice() -> None:
    assert panels_of(64, 16384, HOPPER) is not None
    assert panels_of(64, 16385, HOPPER) is None
    assert panels_of(64, 8193, HOPPER, True) is None
    assert panels_of(64, 64, parse_target("cuda:sm_80")) is None
