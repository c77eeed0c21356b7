"""Which configurations bench_sparse.py measures of a case."""

from __future__ import annotations

import argparse
import itertools
import json
from dataclasses import replace
from typing import Any

import numpy as np
from cases.sparse_cases import SparseCase

from autoq.records.database import Database, shipped_records
from autoq.records.lookup import lookup
from autoq.search.space import Space
from autoq.templates.base import Template
from autoq.templates.composed.turned_product import as_spmm
from autoq.templates.cuda.sparse.spmm_online import OnlineConfig
from autoq.templates.operators.gemm import Gemm
from autoq.templates.registry import TEMPLATES, matching, preferred_first
from autoq.templates.target import Target
from autoq.templates.workload import Workload
from sparse_products.kernels import SparseJob

_BY_NAME = {template.name: template for template in TEMPLATES}


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that `jobs_of` reads."""
    parser.add_argument("--samples", type=int, default=0)
    parser.add_argument("--knobs", default="", help=knob_lists.__doc__)
    parser.add_argument("--each", default="", help="names of knobs, commas between")
    parser.add_argument("--most", type=int, default=3, help="configurations by --each")
    parser.add_argument("--ablation", action="store_true")
    parser.add_argument("--recorded", action="store_true", help="also what shipped records name")
    parser.add_argument(
        "--shipped", action="store_true", help="only what is used untuned and what records name"
    )
    parser.add_argument("--templates", default="", help="names, commas between; default all")
    parser.add_argument("--first", type=int, help="so many templates, those that are preferred")


def jobs_of(
    number: int, case: SparseCase, target: Target, options: argparse.Namespace
) -> list[SparseJob]:
    """Every template's default, first of the one that is used untuned; more by the options.

    Drawn, named and ablated configurations are of the template that is generally preferred. With
    `--each` also, for each combination of values of some knobs of any template, the configuration
    of least estimated time, and of these the best. With `--shipped` there are two at most, what is
    used untuned and the fastest of the shipped records of all templates.
    """
    names = options.templates.split(",") if options.templates else None
    templates = [
        one for one in matching(case.workload, target) if names is None or one.name in names
    ]
    templates = templates[: options.first]
    main, *_ = preferred_first(templates)
    if options.shipped:
        return shipped_of(number, case, templates, target)
    jobs: list[SparseJob] = []
    for template in templates:
        space = template.space(case.workload, target)
        configs = [template.default(case.workload, target)]
        if template is main:
            configs += chosen_of(space, configs[0], options)
        if options.recorded:
            configs += recorded_of(template, case.workload, target)
        if options.each:
            configs += best_of_each(template, case, target, options)
        if options.ablation:
            configs += ablated(space, configs[0]) if template is main else ways_of(configs[0])
        jobs += [SparseJob(number, template.name, config) for config in configs]
    return list(dict.fromkeys(jobs))


def shipped_of(
    number: int, case: SparseCase, templates: list[Template], target: Target
) -> list[SparseJob]:
    """The untuned choice, and the fastest record's of any template, if it is another one."""
    first, *_ = templates
    chosen = [SparseJob(number, first.name, first.default(case.workload, target))]
    best = lookup(Database(shipped_records()), case.workload, target, templates, None)
    if best is not None:
        chosen.append(SparseJob(number, best.template.name, best.config))
    return list(dict.fromkeys(chosen))


def recorded_of(template: Template, workload: Workload, target: Target) -> list[Any]:
    """The fastest configuration in shipped records, of the workload or of it without its zeros.

    Of a layer that is turned for a sparse product also that of the product, which has the same.
    """
    asked = [(template, one) for one in dict.fromkeys((workload, workload.dense))]
    product = as_spmm(workload) if isinstance(workload, Gemm) else None
    inner = _BY_NAME.get(template.name.removeprefix("gemm_"))
    if product is not None and inner is not None and inner is not template:
        asked.append((inner, product))
    database, space = Database(shipped_records()), template.space(workload, target)
    found = (lookup(database, one, target, [by], None) for by, one in asked)
    return [each.config for each in found if each is not None and each.config in space]


def chosen_of(space: Space[Any], first: Any, options: argparse.Namespace) -> list[Any]:
    """Configurations of a space that `--knobs` names, the other knobs as in `first`, or drawn."""
    named = (
        space.config_type(**{**vars(first), **each})
        for each in knob_lists(options.knobs)
        if each.keys() <= vars(first).keys()
    )
    drawn = space.sample(np.random.default_rng(5), options.samples)
    return [*(config for config in named if config in space), *drawn]


def ways_of(config: Any) -> list[Any]:
    """Magicube's way without and with each of its knobs; nothing of other templates."""
    if not isinstance(config, OnlineConfig):
        return []
    return [
        replace(config, ahead=ahead, padded=padded)
        for ahead, padded in itertools.product((False, True), (False, True))
    ]


def best_of_each(
    template: Template, case: SparseCase, target: Target, options: argparse.Namespace
) -> list[Any]:
    """The configurations of least estimated time by values of the knobs `--each` names."""
    names = options.each.split(",")
    found: dict[tuple[Any, ...], tuple[float, Any]] = {}
    if template.estimate is None:
        return []
    for config in template.space(case.workload, target).enumerate():
        knobs = vars(config)
        if not knobs.keys() >= set(names):
            return []
        of = tuple(knobs[name] for name in names)
        seconds = template.estimate(case.workload, config, target)
        if of not in found or seconds < found[of][0]:
            found[of] = (seconds, config)
    best = sorted(found.values(), key=lambda item: item[0])
    return [config for _, config in best[: options.most]]


def ablated(space: Space[Any], config: Any) -> list[Any]:
    """A configuration with each of its knobs at each other value that is legal."""
    return [
        changed
        for name, values in space.knobs.items()
        for value in values
        if (changed := space.config_type(**{**vars(config), name: value})) in space
    ]


def knob_lists(text: str) -> list[dict[str, Any]]:
    """Configurations parted by semicolons, their knobs by commas: "columns=64,warps=16;parts=2"."""
    lists = []
    for part in filter(None, text.split(";")):
        pairs = (pair.split("=") for pair in part.split(","))
        lists.append({name: json.loads(value) for name, value in pairs})
    return lists
