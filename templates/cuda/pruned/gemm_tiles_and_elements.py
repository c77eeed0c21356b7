"""Products with tile-wise weights and single ones beside them: two kernels whose sums are added.

The pattern TEW of Guo et al., "Accelerating Sparse DNNs Based on Tiled GEMM" (arXiv:2402.10876).
Activations are turned once, for both. Tensor cores multiply the tiles; what they leave are sums,
int32 or float32, to which CUDA cores add the single weights' ones, and the epilogue follows.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.composed.pruned_product import PrunedProduct, pruned_product
from autoq.templates.composed.tiles_and_elements import constants_apart, elements_beside, of_tiles
from autoq.templates.cuda.pruned.elements.config import ElementsConfig, ElementsTiling
from autoq.templates.cuda.pruned.elements.cost import estimated_seconds
from autoq.templates.cuda.pruned.elements.kernel import (
    elements_kernel,
    pack_elements,
    packed_elements,
    sums_dtype,
)
from autoq.templates.cuda.pruned.elements.space import (
    ELEMENTS_KNOBS,
    computes_elements,
    elements_constraints,
    elements_default,
)
from autoq.templates.cuda.pruned.tile_wise import gemm_tile_wise
from autoq.templates.cuda.pruned.tile_wise.config import TileWiseConfig, TileWiseTiling
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.program import Program, Stage, Workspace
from autoq.templates.sparse.sparsity import TILE_WISE, TILES_AND_ELEMENTS
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_SUMS, _PREFIX = "sums_of_tiles", "tile_"


@dataclass(frozen=True)
class TilesAndElementsConfig(TileWiseConfig, ElementsConfig):
    """Knobs of both kernels: those of `TileWiseConfig`, and those of `ElementsConfig`."""


def _view(workload: object) -> PrunedProduct | None:
    return pruned_product(workload, TILES_AND_ELEMENTS)


def _tiles(workload: Gemm | FloatGemm, config: TileWiseConfig) -> TileWiseTiling:
    view = pruned_product(of_tiles(workload), TILE_WISE)
    assert view is not None
    return TileWiseTiling(view, config)


def _elements(
    workload: Gemm | FloatGemm, config: ElementsConfig, turned: int | None = None
) -> ElementsTiling:
    view = _view(workload)
    assert view is not None
    return ElementsTiling(view, elements_beside(view.workload), config, turned)


def _both(
    workload: Gemm | FloatGemm, config: TilesAndElementsConfig
) -> tuple[TileWiseTiling, ElementsTiling]:
    """Both products; the second one reads what is turned for the first one."""
    tiles = _tiles(workload, config)
    return tiles, _elements(workload, config, tiles.pitch)


def matches(workload: object, target: Target) -> bool:
    """Tiles that `gemm_tile_wise` takes, with single weights beside them."""
    view = _view(workload)
    if view is None or target.kind != "cuda" or view.value.bytes == 4:
        return False
    return gemm_tile_wise.TEMPLATE.matches(of_tiles(view.workload), target) and computes_elements(
        view, elements_beside(view.workload), target
    )


def space(workload: Gemm | FloatGemm, target: Target) -> Space[TilesAndElementsConfig]:
    """Configurations of both kernels that read x turned in the same way."""
    tiles, view = gemm_tile_wise.space(of_tiles(workload), target), _view(workload)
    assert view is not None

    def elements_of(config: TilesAndElementsConfig) -> ElementsTiling:
        return _both(workload, config)[1]

    def features(config: TilesAndElementsConfig) -> Mapping[str, float]:
        assert tiles.derive is not None
        elements = estimated_seconds(elements_of(config), target)
        return {**tiles.derive(config), "elements": elements}

    # Both kernels read x as the first stage turns it.
    apart = {**tiles.knobs, "helped": (False,), "fused": (False,)}
    return Space(
        TilesAndElementsConfig, {**ELEMENTS_KNOBS, **apart},
        (*tiles.constraints, *elements_constraints(view, elements_of, target)), features,
    )  # fmt: skip


def default(workload: Gemm | FloatGemm, target: Target) -> TilesAndElementsConfig:
    """The best of tiles over x turned by itself, and the best panels that divide its rows."""
    product = of_tiles(workload)
    legal = gemm_tile_wise.space(product, target).enumerate()
    apart = (config for config in legal if not config.helped)
    tiles = gemm_tile_wise.cheapest(product, target, apart)
    pitch = _tiles(workload, tiles).pitch
    elements = elements_default(functools.partial(_elements, workload, turned=pitch), target)
    return TilesAndElementsConfig(**vars(elements), **vars(tiles))


def estimate(workload: Gemm | FloatGemm, config: TilesAndElementsConfig, target: Target) -> float:
    """Roughly the seconds of a configuration."""
    elements = estimated_seconds(_both(workload, config)[1], target)
    return gemm_tile_wise.estimate(of_tiles(workload), config, target) + elements


def build(workload: Gemm | FloatGemm, config: TilesAndElementsConfig, target: Target) -> Program:
    """x turned, the sums of tiles, then those of single weights and the epilogue."""
    product, elements = of_tiles(workload), _both(workload, config)[1]
    constants = gemm_tile_wise.packed(product, config)
    names = {spec.name: _PREFIX + spec.name for spec in constants}
    first = gemm_tile_wise.build(product, config, target).renamed({**names, "y": _SUMS})
    sums = TensorSpec(_SUMS, (workload.m, workload.n), sums_dtype(elements))
    others = (spec.name for spec in (*workload.inputs[1:], *packed_elements(elements)))
    (turned,) = first.workspaces
    last = Stage(
        elements_kernel(elements, sums, target), (turned.spec.name, _SUMS, *others),
        (workload.outputs[0].name,),
    )  # fmt: skip
    return Program((*first.stages, last), (turned, Workspace(sums)))


def pack(
    workload: Gemm | FloatGemm, config: TilesAndElementsConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """What both kernels pack, each of its part of the weight."""
    in_tiles, single = constants_apart(workload, constants)
    tiles = gemm_tile_wise.pack(of_tiles(workload), config, in_tiles)
    return (*tiles, *pack_elements(_both(workload, config)[1], single))


def packed(workload: Gemm | FloatGemm, config: TilesAndElementsConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    tiles = gemm_tile_wise.packed(of_tiles(workload), config)
    named = (replace(spec, name=_PREFIX + spec.name) for spec in tiles)
    return (*named, *packed_elements(_both(workload, config)[1]))


TEMPLATE = Template(
    "gemm_tiles_and_elements", 1, matches, space, default, build, pack, packed, estimate=estimate,
    preference=-100,
)  # fmt: skip
