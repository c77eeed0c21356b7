"""Configurations of products with single weights that are legal, and the default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autoq.search.space import Space
from autoq.templates.composed.pruned_product import PrunedProduct
from autoq.templates.cuda.device.launch.thread_kernel import indexable
from autoq.templates.cuda.pruned.elements.config import ElementsConfig, ElementsTiling
from autoq.templates.cuda.pruned.elements.cost import estimated_seconds, features
from autoq.templates.sparse.structure import Structure
from autoq.templates.target import Target

_LANES = (4, 8, 16, 32)
_OUTPUTS = (1, 2, 4, 8, 16)
_WARPS = (4, 8, 16)
_CHUNKS = (64, 128, 256, 512, 1024, 2048, 4096)
_REGISTERS_BEFORE_SPILLS = 200


def computes_elements(view: PrunedProduct, structure: Structure, target: Target) -> bool:
    """Whether arrays have int32 indices and the epilogue is one that threads compute."""
    smallest = ElementsTiling(view, structure, ElementsConfig(4, 1, 4, 64))
    arrays = ((view.k, smallest.pitch), (view.m, view.n), (smallest.runs + 1,), (smallest.steps, 4))
    return view.thread_epilogue(view.n, 1).supported and indexable(*arrays)


ELEMENTS_KNOBS = {"lanes": _LANES, "outputs": _OUTPUTS, "warps": _WARPS, "chunk": _CHUNKS}
"""The values of each knob."""

TilingOf = Callable[[Any], ElementsTiling]
"""Cuts a product by a configuration that has the knobs, perhaps among others."""


def elements_constraints(
    view: PrunedProduct, tiling_of: TilingOf, target: Target
) -> tuple[Callable[[Any], bool], ...]:
    """Panels and sums that fit a multiprocessor, and none that have nothing to do."""

    def a_block_fits(config: Any) -> bool:
        """A multiprocessor has shared memory and registers for a block."""
        tiling = tiling_of(config)
        return tiling.resident(target) > 0 and tiling.registers <= _REGISTERS_BEFORE_SPILLS

    def rows_are_there(config: Any) -> bool:
        """No panel is twice as high as y, unless it is the lowest."""
        return config.lanes == _LANES[0] or tiling_of(config).rows < 2 * view.m

    def columns_are_there(config: Any) -> bool:
        """No block has twice the outputs of y, unless its groups have one each."""
        return config.outputs == 1 or tiling_of(config).columns < 2 * view.n

    def inputs_are_there(config: Any) -> bool:
        """No chunk has twice the inputs that there are."""
        return config.chunk == _CHUNKS[0] or config.chunk < 2 * view.k

    def panels_are_whole(config: Any) -> bool:
        """x is turned in rows that panels divide."""
        return tiling_of(config).panels_are_whole

    return (panels_are_whole, a_block_fits, rows_are_there, columns_are_there, inputs_are_there)


def elements_space(tiling_of: TilingOf, target: Target) -> Space[ElementsConfig]:
    """The legal configurations of a product with single weights alone."""
    view = tiling_of(ElementsConfig(_LANES[0], 1, _WARPS[0], _CHUNKS[0])).view
    constraints = elements_constraints(view, tiling_of, target)
    return Space(
        ElementsConfig, ELEMENTS_KNOBS, constraints, lambda c: features(tiling_of(c), target)
    )


def elements_default(tiling_of: TilingOf, target: Target) -> ElementsConfig:
    """The legal configuration of least estimated time."""
    legal = elements_space(tiling_of, target).enumerate()
    return min(legal, key=lambda config: estimated_seconds(tiling_of(config), target))
