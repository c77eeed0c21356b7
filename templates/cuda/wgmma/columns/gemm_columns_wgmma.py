"""Tile-wise products over all of k: the dense wgmma pipeline of the columns that are left.

What tiles leave out of k is multiplied as zeros, and columns of zeros are not multiplied. Rows of
outputs become those of y by way of shared memory, with what pruned columns are between them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.device.launch.dependent_launch import gains_by_overlapping
from autoq.templates.cuda.device.scattered.words import WORD_BYTES
from autoq.templates.cuda.device.scattered.words_source import STORE_WORDS
from autoq.templates.cuda.wgmma import gemm_wgmma
from autoq.templates.cuda.wgmma.columns.compact import CompactProduct, compact_of
from autoq.templates.cuda.wgmma.config import WgmmaConfig
from autoq.templates.cuda.wgmma.default import default_config, untuned_seconds
from autoq.templates.cuda.wgmma.expansion import Expansion, pitch, staged_bytes
from autoq.templates.cuda.wgmma.kernel.pipeline import build_pipeline
from autoq.templates.cuda.wgmma.loads import MatrixLoad
from autoq.templates.cuda.wgmma.plan import Extras, PipelinePlan
from autoq.templates.cuda.wgmma.problem import Problem
from autoq.templates.cuda.wgmma.space import make_space
from autoq.templates.operators.gemm import Gemm
from autoq.templates.program import Program, Stage
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_EXPAND = (
    "struct Constants {};\n"
    + STORE_WORDS.replace("AT_ONCE", "16")
    .replace("READ_ROW", "(r + i * step) % 16")
    .replace("ENTRY_AT", "__ldg")
    + r"""
__device__ __forceinline__ void expand(
    const void* rows, const void* spans, const void* places, void* y, int tile, int first_row,
    int lane) {
  const int2 span = __ldg(static_cast<const int2*>(spans) + tile);
  const int4 own = make_int4(0, 0, span.x, span.y);
  store_rows(static_cast<const unsigned*>(rows), Constants{}, places,
             read_entry(places, own, lane), static_cast<OUT*>(y), first_row,
             min(16, M - first_row), own, lane);
}
// What a tile's entries are comes to the L1 while the tile is multiplied.
__device__ __forceinline__ void ahead(const void* spans, const void* places, int tile, int lane) {
  const int2 span = __ldg(static_cast<const int2*>(spans) + tile);
  const int count = whole_words(make_int4(0, 0, 0, span.y)) + 2;
  for (int i = lane * 8; i < count; i += 256) {
    unsigned read;
    asm volatile("ld.global.nc.b32 %0, [%1];"
                 : "=r"(read) : "l"(static_cast<const int4*>(places) + span.x + i) : "memory");
  }
}
"""
)


def _compact(workload: Gemm) -> CompactProduct:
    compact = compact_of(workload)
    assert compact is not None
    return compact


def matches(workload: object, target: Target) -> bool:
    """Tile-wise weights of bytes whose columns that are left are a product of `gemm_wgmma`."""
    compact = compact_of(workload)
    if compact is None or compact.view.floating:
        return False
    return gemm_wgmma.matches(compact.dense, target)


def _load(compact: CompactProduct, config: WgmmaConfig) -> MatrixLoad:
    work = compact.dense.as_conv2d()
    return MatrixLoad(work, config.layout(work), config.block_m)


def _problem(compact: CompactProduct, target: Target) -> Problem:
    work = compact.dense.as_conv2d()
    return Problem(
        work, target, lambda config: _load(compact, config), streams=True, alone=True, expands=True
    )


def _rules(compact: CompactProduct, target: Target) -> list[Callable[[Any], bool]]:
    work = compact.dense.as_conv2d()

    def rows_fit_beside(config: WgmmaConfig) -> bool:
        """rows that become those of y fit beside all stages of all resident blocks"""
        each = target.unit_smem_bytes // config.blocks_per_unit - target.reserved_smem_bytes
        needed = config.smem_bytes(config.layout(work)) + staged_bytes(config, compact.out_bytes)
        return needed <= min(each, target.smem_bytes)

    def tiles_are_whole(config: WgmmaConfig) -> bool:
        """whoever stores a tile has all of its sums"""
        return config.parts == 1

    return [rows_fit_beside, tiles_are_whole]


def space(workload: Gemm, target: Target) -> Space[WgmmaConfig]:
    """Those of `gemm_wgmma` whose tiles are whole."""
    compact = _compact(workload)
    return make_space(_problem(compact, target), WgmmaConfig, None, _rules(compact, target))


def default(workload: Gemm, target: Target) -> WgmmaConfig:
    """The configuration with the least estimated time."""
    return default_config(_problem(_compact(workload), target), space(workload, target))


def estimate(workload: Gemm, config: WgmmaConfig, target: Target) -> float:
    """Roughly the seconds of a configuration."""
    return untuned_seconds(_problem(_compact(workload), target), config)


def _tiles(compact: CompactProduct, config: WgmmaConfig) -> int:
    return -(-compact.columns // config.block_n)


def build(workload: Gemm, config: WgmmaConfig, target: Target, ahead: int = 0) -> Program:
    """The kernel; parameters x, `packed`, what blocks share tiles through, y."""
    compact = _compact(workload)
    functions = compact.functions(_EXPAND, pitch(config, compact.out_bytes) // WORD_BYTES)
    expand, fetch = functions.function("expand"), functions.function("ahead")
    expansion = Expansion(*compact.specs(_tiles(compact, config)), expand, fetch)
    work, load = compact.dense.as_conv2d(), _load(compact, config)
    overlaps = gains_by_overlapping(work.operations, target.int8_rate)
    extras = Extras(ahead=ahead, expansion=expansion, overlaps=overlaps)
    plan = PipelinePlan(work, config, load.layout, load, target, extras=extras)
    kernel = build_pipeline(plan, workload.x_shape, workload.y_shape)
    reads = tuple(spec.name for spec in (*workload.inputs, *packed(workload, config)))
    spaces = tuple(space.spec.name for space in plan.workspaces)
    return Program((Stage(kernel, (*reads, *spaces[:1]), (*spaces, "y")),), plan.workspaces)


def pack(workload: Gemm, config: WgmmaConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """What `gemm_wgmma` has of the columns that are left, and which of y they are."""
    compact = _compact(workload)
    left, words = compact.pack(constants, _tiles(compact, config), config.block_n)
    return (*gemm_wgmma.pack(compact.dense, config, left), *words)


def packed(workload: Gemm, config: WgmmaConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    compact = _compact(workload)
    dense = gemm_wgmma.packed(compact.dense, config)
    return (*dense, *compact.specs(_tiles(compact, config)))


TEMPLATE = Template(
    "gemm_columns_wgmma", 1, matches, space, default, build, pack, packed, estimate=estimate,
    looks_ahead=True,
)  # fmt: skip
