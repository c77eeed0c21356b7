"""Tile-wise products of 16-bit floats over all of k: the dense product of the columns left.

It is the way of `gemm_columns_wgmma`, on the pipeline of `float_gemm_wgmma`, whose slices of
results of 64 columns become rows of y.
"""

from __future__ import annotations

import numpy as np

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.mixed.wgmma import cost, float_gemm_wgmma
from autoq.templates.cuda.mixed.wgmma import default as defaults
from autoq.templates.cuda.mixed.wgmma import space as spaces
from autoq.templates.cuda.mixed.wgmma.config import MixedConfig
from autoq.templates.cuda.mixed.wgmma.expansion import SliceExpansion
from autoq.templates.cuda.mixed.wgmma.pack import pack as pack_plan
from autoq.templates.cuda.mixed.wgmma.pack import packed as packed_plan
from autoq.templates.cuda.mixed.wgmma.plan import MixedPlan
from autoq.templates.cuda.pruned.columns.compact import CompactProduct, compact_of
from autoq.templates.cuda.pruned.tile_wise.words_source import store_words
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.program import Program
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_BLOCK = 64
"""Columns of a slice."""
_ROW_WORDS = 32
_BYTES = 2

_EXPAND = (
    "struct Constants {};\n"
    + store_words("min(r + i * step, count - 1)", "swizzled_word")
    + r"""
__device__ __forceinline__ void expand(
    const void* slice, const void* spans, const void* places, void* y, int block, int first_row,
    int rows, int warp, int lane) {
  const int2 span = __ldg(static_cast<const int2*>(spans) + block);
  const int4 own = make_int4(0, 0, span.x, span.y);
  const int4 entry = read_entry(places, own, lane);
  for (int r = 16 * warp; r < min(rows, M - first_row); r += 64)
    store_rows(static_cast<const unsigned*>(slice) + r * ROW_PITCH, Constants{}, places, entry,
               static_cast<OUT*>(y), first_row + r, min(16, min(rows, M - first_row) - r), own,
               lane);
}
"""
)


def _compact(workload: FloatGemm) -> CompactProduct:
    compact = compact_of(workload)
    assert compact is not None
    return compact


def matches(workload: object, target: Target) -> bool:
    """Tile-wise weights of 16-bit floats, with outputs of as many bits."""
    compact = compact_of(workload)
    if compact is None or not compact.view.scaled or compact.out_bytes != _BYTES:
        return False
    return float_gemm_wgmma.matches(compact.dense, target)


def space(workload: FloatGemm, target: Target) -> Space[MixedConfig]:
    """Those of `float_gemm_wgmma`."""
    return spaces.space(_compact(workload).dense, target)


def default(workload: FloatGemm, target: Target) -> MixedConfig:
    """The configuration with the least estimated time."""
    return defaults.default(_compact(workload).dense, target)


def estimate(workload: FloatGemm, config: MixedConfig, target: Target) -> float:
    """Roughly the seconds of a configuration."""
    return cost.estimate(_compact(workload).dense, config, target)


def _blocks(compact: CompactProduct, config: MixedConfig) -> int:
    """Blocks of columns of whole tiles."""
    return config.columns(compact.columns) * config.cluster * config.blocks


def build(workload: FloatGemm, config: MixedConfig, target: Target) -> Program:
    """The kernel; parameters x, `packed`, what blocks share tiles through, y."""
    compact = _compact(workload)
    specs = compact.specs(_blocks(compact, config))
    expand = compact.expand(_EXPAND, _ROW_WORDS)
    plan = MixedPlan(
        compact.dense, config, expansion=SliceExpansion(*specs, expand, workload.y_shape)
    )
    return float_gemm_wgmma.program(plan, workload.inputs, target, specs)


def pack(workload: FloatGemm, config: MixedConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """What `float_gemm_wgmma` has of the columns that are left, and which of y they are."""
    compact = _compact(workload)
    left, words = compact.pack(constants, _blocks(compact, config), _BLOCK)
    return (*pack_plan(MixedPlan(compact.dense, config), left), *words)


def packed(workload: FloatGemm, config: MixedConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    compact = _compact(workload)
    dense = packed_plan(MixedPlan(compact.dense, config))
    return (*dense, *compact.specs(_blocks(compact, config)))


TEMPLATE = Template(
    "float_gemm_columns_wgmma", 1, matches, space, default, build, pack, packed, estimate=estimate
)
