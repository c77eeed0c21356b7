"""The bars of the ablation: conv2d_mma_sync with its knobs restricted, as templates of their own.

A registry that child processes load: every variant is a template whose space holds only some of
the knobs' values, so that each bar is tuned for itself.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autoq.search.space import Space
from autoq.templates.arrays.layout import NHWC, NHWCNC
from autoq.templates.base import Template
from autoq.templates.cuda.mma_sync.conv2d_mma_sync import TEMPLATE
from autoq.templates.cuda.mma_sync.default import estimated_seconds
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import Target

_DRAWN = 64

NONE = {"duplicates": ("none",), "packing": ("shared",)}
"""Plain im2col, int32 accumulators packed behind shared memory."""
DUPLICATES = {"duplicates": ("shared", "register")}
PACKING = {"packing": ("shuffle", "weights")}


@dataclass(frozen=True)
class Variant:
    """A bar: values of some knobs, and the layout of the activations."""

    name: str
    knobs: Mapping[str, tuple[Any, ...]] = field(hash=False)
    layout: str = NHWC

    @property
    def template(self) -> str:
        """Name of the variant's template."""
        return f"{TEMPLATE.name}.{self.name}"

    def workload(self, workload: Conv2d) -> Conv2d:
        """A workload in the variant's layout."""
        return dataclasses.replace(workload, in_layout=self.layout, out_layout=self.layout)


BASELINE = Variant("baseline", NONE)
ACCUMULATED = (
    BASELINE,
    Variant("duplicates", NONE | DUPLICATES),
    Variant("duplicates_packing", NONE | DUPLICATES | PACKING),
    Variant("duplicates_packing_layout", NONE | DUPLICATES | PACKING, NHWCNC),
)
"""The paper's figure 15: each variant has all optimisations of the one before."""
MARGINAL = (ACCUMULATED[1], Variant("packing", NONE | PACKING), Variant("layout", NONE, NHWCNC))
"""The paper's figure 16: one optimisation each."""
SEARCHED = Variant("searched", {})
"""The whole space of the template, in NHWC."""
VARIANTS = tuple(dict.fromkeys((*ACCUMULATED, *MARGINAL, SEARCHED)))


def restricted_space(
    knobs: Mapping[str, tuple[Any, ...]], workload: Conv2d, target: Target
) -> Space[Any]:
    """The template's space with only some values of some knobs."""
    return TEMPLATE.space(workload, target).restricted(knobs)


def least_estimated(knobs: Mapping[str, tuple[Any, ...]], workload: Conv2d, target: Target) -> Any:
    """The configuration of least estimated time among some that are drawn."""
    space = restricted_space(knobs, workload, target)
    drawn = space.sample(np.random.default_rng(0), _DRAWN)
    return min(drawn, key=lambda config: estimated_seconds(workload, config, target))


def _template(variant: Variant) -> Template:
    return dataclasses.replace(
        TEMPLATE,
        name=variant.template,
        # Seeds share a space, whose legal choices take a second to find.
        space=functools.cache(functools.partial(restricted_space, variant.knobs)),
        default=functools.partial(least_estimated, variant.knobs),
    )


TEMPLATES = tuple(map(_template, VARIANTS))
