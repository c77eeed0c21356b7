"""The kernels of a model among which its candidates are timed: its layers' untuned defaults.

A kernel that is launched again and again finds its own code and its own kind of neighbour. In a
network it follows others, whose blocks it has to fit beside, and its code has to be fetched anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autoq.knowledge.choice import default_of
from autoq.measure.job import Job
from autoq.templates.base import Template
from autoq.templates.target import Target
from autoq.tuning.task import ModelWorkload, roofline_seconds

# Kernels that stand for all: each is launched once in every timing.
_MOST = 32


def company(
    model: Sequence[tuple[ModelWorkload, Sequence[Template]]], target: Target
) -> Iterator[Job]:
    """The untuned defaults of the layers that take most of a model's time, in its order.

    They come one by one, since finding one takes a while in which others can be compiled.
    model: its workloads with the templates that compute each, the preferred one first.
    """

    def share(place: int) -> float:
        layer, _ = model[place]
        return layer.count * roofline_seconds(layer.workload, target)

    chosen = sorted(sorted(range(len(model)), key=share, reverse=True)[:_MOST])
    for layer, (first, *_) in (model[place] for place in chosen):
        yield Job(layer.workload, first.name, default_of(first, layer.workload, target))
