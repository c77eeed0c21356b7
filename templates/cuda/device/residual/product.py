"""Templates of residual products around one of integer products, whose weights they write."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.errors import BuildError
from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.device.launch.thread_kernel import indexable
from autoq.templates.cuda.device.residual import constants as arrays
from autoq.templates.cuda.device.residual.knobs import default_knobs, knob_values
from autoq.templates.cuda.device.residual.plan import ResidualPlan, filled, inner_product
from autoq.templates.cuda.device.residual.sides import INDEX_BITS
from autoq.templates.cuda.device.residual.stages import residual_program
from autoq.templates.cuda.device.residual.weight_layout import WeightLayout
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.program import Program
from autoq.templates.target import Target
from autoq.templates.workload import Constants


@dataclass(frozen=True)
class CompensatedProduct:
    """The functions of a template that leaves the products of integers to another one.

    inner: the template of products, whose weights are written just before; config_type: its knobs
    and `ResidualKnobs`; layout_of: where its weights lie; values: of a product's knobs that are its
    own, or have fewer where weights are no constants, the one that is used untuned first;
    preferred: knobs that are used untuned where they are legal together, of those that a workload
    has.
    weighed: the inner product that also leaves parts of weighed sums, None where it leaves none;
    its arguments are those of `Template.program`.
    rough: whether there is one whose sums are in single precision.
    four_bits: whether values of 4 bits are multiplied two a byte where tensor cores do that.
    rules: of legal configurations, besides the inner template's.
    """

    inner: Template
    config_type: type[Any]
    layout_of: Callable[[Gemm, Any], WeightLayout]
    values: Callable[[Gemm], Mapping[str, tuple[Any, ...]]]
    preferred: Callable[[Gemm], Mapping[str, Any]]
    weighed: Callable[[Gemm, Any, Target, int], Program | None] = lambda *arguments: None
    rough: bool = False
    four_bits: bool = False
    rules: tuple[Callable[[Any], bool], ...] = ()

    def matches(self, workload: object, target: Target) -> bool:
        """Products whose integers the inner template multiplies; lists need k below 2^24."""
        if not isinstance(workload, ResidualGemm) or target.kind != "cuda":
            return False
        short = workload.correction != "sparse" or workload.k < 1 << INDEX_BITS
        sides = (workload.m, filled(workload.k)), (workload.n, filled(workload.k))
        product = self._product(workload, target)
        return short and indexable(*sides) and self.inner.matches(product, target)

    def _product(self, workload: ResidualGemm, target: Target) -> Gemm:
        """What the inner template computes on a target."""
        nibbles = self.four_bits and workload.bits == 4 and target.has_int4_mma
        return inner_product(workload, nibbles)

    def space(self, workload: ResidualGemm, target: Target) -> Space[Any]:
        """The knobs of the inner template, and those of what runs beside it."""
        product = self._product(workload, target)
        inner = self.inner.space(product, target)
        knobs = {**inner.knobs, **self.values(product), **knob_values(workload, target)}
        knobs["rough_sums"] = knobs["rough_sums"] if self.rough else (False,)
        ordered = {field.name: knobs[field.name] for field in dataclasses.fields(self.config_type)}
        return Space(self.config_type, ordered, [*inner.constraints, *self.rules], inner.derive)

    def default(self, workload: ResidualGemm, target: Target) -> Any:
        """The preferred knobs, or the inner template's choice; else the first legal one.

        What the inner template chooses may rest on constant weights.
        """
        product = self._product(workload, target)
        chosen = self.inner.default(product, target)
        knobs = {field.name: getattr(chosen, field.name) for field in dataclasses.fields(chosen)}
        first = {name: values[0] for name, values in self.values(product).items()}
        config = self.config_type(**{**knobs, **first, **default_knobs(workload, target)})
        space = self.space(workload, target)
        preferred = {name: value for name, value in self.preferred(product).items()
                     if value in space.knobs[name]}  # fmt: skip
        tried = (dataclasses.replace(config, **preferred), config)
        legal = next((one for one in tried if one in space), None)
        return legal or next(space.enumerate())

    def estimate(self, workload: ResidualGemm, config: Any, target: Target) -> float:
        """Roughly the seconds of the product; what runs beside it moves the same bytes for all.

        Raises BuildError for an inner template without estimates.
        """
        if self.inner.estimate is None:
            raise BuildError(f"{self.inner.name} estimates nothing")
        return self.inner.estimate(self._product(workload, target), config, target)

    def plan(self, workload: ResidualGemm, config: Any) -> ResidualPlan:
        """The arrays and kernels of a configuration.

        Raises BuildError where the inner template's weights are not of the layout's size.
        """
        product = inner_product(workload, config.nibbles)
        layout = self.layout_of(product, config)
        (weight,) = (s for s in self.inner.packed(product, config) if s.name == "weight")
        if math.prod(weight.shape) * (2 if config.nibbles else 1) != layout.size(workload.n):
            raise BuildError(f"{self.inner.name}: weights {weight.shape} are not those of {layout}")
        return ResidualPlan(workload, config, layout)

    def build(self, workload: ResidualGemm, config: Any, target: Target, ahead: int = 0) -> Program:
        """What quantises, the products, what finds and adds their correction.

        A product looks ahead behind a b that is a constant; behind one that it is given lies none.
        """
        work = inner_product(workload, config.nibbles)
        ahead = ahead if workload.constant_b else 0
        product = self.inner.program(work, config, target, ahead)
        constants = self.packed(workload, config)
        sparse = workload.correction == "sparse"
        weighed = self.weighed(work, config, target, ahead) if sparse else None
        plan = self.plan(workload, config)
        return residual_program(plan, product, weighed, constants, target)

    def pack(
        self, workload: ResidualGemm, config: Any, constants: Constants
    ) -> tuple[np.ndarray, ...]:
        """The arrays of `packed`."""
        return arrays.pack(self.plan(workload, config), self.inner, config, constants)

    def packed(self, workload: ResidualGemm, config: Any) -> tuple[TensorSpec, ...]:
        """b as integers if it is constant, what else the product takes, bias and thresholds."""
        return arrays.packed(self.plan(workload, config), self.inner, config)

    def template(self, name: str, version: int, module: str, preference: int) -> Template:
        """The template that a module defines, with estimates where the inner one has them."""
        estimate = None if self.inner.estimate is None else self.estimate
        return Template(
            name, version, self.matches, self.space, self.default, self.build, self.pack,
            self.packed, estimate=estimate, preference=preference, module=module,
            looks_ahead=self.inner.looks_ahead,
        )  # fmt: skip
