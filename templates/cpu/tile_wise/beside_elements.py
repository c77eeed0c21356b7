"""The templates of tiles with single weights beside them on a CPU: two kernels, sums between."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.composed.tiles_and_elements import constants_apart, elements_beside, of_tiles
from autoq.templates.cpu.elements_kernel import (
    ElementsCpuConfig,
    ElementsCpuTiling,
    elements_cpu_default,
    elements_cpu_kernel,
    elements_cpu_space,
)
from autoq.templates.cpu.row_epilogue import finishes_rows
from autoq.templates.cpu.tile_wise.config import TileWiseCpuConfig
from autoq.templates.operators.gemm import Gemm
from autoq.templates.program import Program, Stage, Workspace
from autoq.templates.sparse.sparsity import TILES_AND_ELEMENTS
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_SUMS, _PREFIX = "sums_of_tiles", "tile_"


@dataclass(frozen=True)
class TilesAndElementsCpuConfig(TileWiseCpuConfig, ElementsCpuConfig):
    """Knobs of both kernels: those of `TileWiseCpuConfig`, and those of `ElementsCpuConfig`."""


@dataclass(frozen=True)
class BesideElements:
    """The functions of a template that leaves the tiles to another one.

    inner: the template of tile-wise products.
    """

    inner: Template

    def matches(self, workload: object, target: Target) -> bool:
        """Tiles that the inner template takes, with single weights beside them."""
        if not isinstance(workload, Gemm) or workload.sparsity is None:
            return False
        if workload.sparsity.pattern != TILES_AND_ELEMENTS or not finishes_rows(workload, target):
            return False
        return self.inner.matches(of_tiles(workload), target)

    def space(self, workload: Gemm, target: Target) -> Space[Any]:
        """The knobs of both kernels."""
        tiles = self.inner.space(of_tiles(workload), target)
        knobs = {**elements_cpu_space(workload, target).knobs, **tiles.knobs}
        return Space(TilesAndElementsCpuConfig, knobs, tiles.constraints)

    def default(self, workload: Gemm, target: Target) -> TilesAndElementsCpuConfig:
        """The defaults of both kernels."""
        tiles = self.inner.default(of_tiles(workload), target)
        return TilesAndElementsCpuConfig(
            **vars(elements_cpu_default(workload, target)), **vars(tiles)
        )

    def build(self, workload: Gemm, config: TilesAndElementsCpuConfig, target: Target) -> Program:
        """The sums of tiles, then those of single weights and the epilogue."""
        product, elements = of_tiles(workload), _elements(workload, config)
        names = {spec.name: _PREFIX + spec.name for spec in self.inner.packed(product, config)}
        first = self.inner.program(product, config, target).renamed({**names, "y": _SUMS})
        sums = TensorSpec(_SUMS, (workload.m, workload.n), elements.accumulator)
        x, *others = (spec.name for spec in workload.inputs)
        reads = (x, _SUMS, *others, *(spec.name for spec in elements.specs()))
        last = Stage(elements_cpu_kernel(elements, adds=True), reads, (workload.outputs[0].name,))
        return Program((*first.stages, last), (*first.workspaces, Workspace(sums)))

    def pack(
        self, workload: Gemm, config: TilesAndElementsCpuConfig, constants: Constants
    ) -> tuple[np.ndarray, ...]:
        """What both kernels pack, each of its part of the weight."""
        tiles, single = constants_apart(workload, constants)
        own = self.inner.pack(of_tiles(workload), config, tiles)
        return (*own, *_elements(workload, config).pack(single))

    def packed(self, workload: Gemm, config: TilesAndElementsCpuConfig) -> tuple[TensorSpec, ...]:
        """What `pack` gives."""
        tiles = self.inner.packed(of_tiles(workload), config)
        named = (replace(spec, name=_PREFIX + spec.name) for spec in tiles)
        return (*named, *_elements(workload, config).specs())

    def template(self, name: str, module: str) -> Template:
        """The template that a module defines, untuned behind every dense one."""
        return Template(
            name, self.inner.version, self.matches, self.space, self.default, self.build,
            self.pack, self.packed, preference=self.inner.preference - 100, module=module,
        )  # fmt: skip


def _elements(workload: Gemm, config: ElementsCpuConfig) -> ElementsCpuTiling:
    return ElementsCpuTiling(workload, elements_beside(workload), config)
