"""`autoq.residual_matmul`: a product of float32 matrices through integers of 8 or 4 bits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from autoq.errors import InputError
from autoq.products.finite import require_finite
from autoq.products.kept_crossovers import crossover_of
from autoq.products.kept_operators import Place
from autoq.products.option_fields import options_of
from autoq.products.placed_options import PlacedOptions
from autoq.products.residual_crossover import measured_crossover
from autoq.residual.candidates import Block, in_order_of_cost
from autoq.residual.channels import with_channels
from autoq.residual.low_rank import low_rank_terms
from autoq.residual.operands import Operands, make_operands
from autoq.residual.search import cheapest_within
from autoq.residual.setting import (
    DEFAULT_THRESHOLD,
    ONE_SIDED,
    ResidualProduct,
    Setting,
    generator,
    require_tolerance,
)
from autoq.templates.operators.residual_gemm import ResidualGemm

DEFAULT_COUNTS = {"channels": 64, "low-rank": 1}
"""The counts of corrections that have one."""


@dataclass(frozen=True)
class ProductOptions(PlacedOptions):
    """Where and how a product is computed.

    count: residual channels that "channels" appends along k, or the rank of "low-rank".
    check_finite refuses NaN and infinity, whose products mean nothing here; it reads both matrices
    once more. seed draws what is sampled and projected.
    target, tuning_records, use_shipped_records and cache_dir as in `autoq.operator`.
    """

    count: int | None = None
    check_finite: bool = True
    seed: int = 0


def residual_matmul(
    a: Any,
    b: Any,
    bits: int = 8,
    threshold: float | None = None,
    tolerance: float | None = None,
    correction: str | None = None,
    crossover: float | None = None,
    **options: Any,
) -> ResidualProduct:
    """The product `a @ b` of float32 matrices, multiplied as integers of 8 or 4 bits.

    a is [..., m, k] and b [k, n], numpy arrays however strided, or dense DLPack matrices on the
    host or on the GPU. y is as of `autoq.operator`: numpy, or where both lie on the GPU a DLPack
    array there that the next product of the shape overwrites.

    correction, what takes back the error of quantising (`residual.setting.CORRECTIONS`): "sparse",
    the default, at `threshold`, which is 1 by default, 0 for all and infinity for nothing; a side
    of which a larger share than `crossover` matters takes part whole. Without a `crossover` it is
    the device's (`products.residual_crossover`), and where that is 0, since lists never pay there,
    the full correction takes its place. "none". "full", of three products. "channels" and
    "low-rank", of an option `count`, which the host prepares.

    tolerance, in the place of correction and threshold: a relative error in the Frobenius norm.
    The settings of `residual.candidates` are tried, the cheapest first, until the `error_bound` of
    the result (`residual.sampling`) is within it.

    `options` are the fields of `ProductOptions`. Raises InputError for what the user gave, a
    tolerance that no correction reaches included, TargetError without the device, RecordError or
    BuildError as `autoq.operator`.
    """
    chosen = options_of(ProductOptions, options)
    if tolerance is None:
        setting = _setting(bits, threshold, correction, crossover, chosen.count)
    else:
        require_tolerance(tolerance)
        mine = {"correction": correction, "threshold": threshold, "count": chosen.count}
        for name, value in mine.items():
            if value is not None:
                raise InputError(f"{name} {value!r:.80}: a tolerance chooses it; give one of them")
        setting = Setting(bits, "sparse", DEFAULT_THRESHOLD, crossover)
    rng = generator(chosen.seed)
    operands = make_operands(a, b, bits)
    place = chosen.place
    if chosen.check_finite:
        for name, matrix in (("a", operands.a), ("b", operands.b)):
            require_finite(name, matrix, place.host.target, place.cache_dir)
    if setting.plainest.correction == "sparse" and setting.crossover is None:
        setting = replace(setting, crossover=_crossover(operands, setting.bits, place))
        if tolerance is None and not setting.crossover:
            setting = Setting(setting.bits, "full")
    if tolerance is None:
        product = ResidualProduct(_compute(operands, setting, place, rng), setting)
    else:
        product = _within(operands, setting, float(tolerance), place, rng)
    if not isinstance(product.y, np.ndarray):
        return product
    return replace(product, y=product.y.reshape(*operands.leading, operands.n))


def _setting(
    bits: int,
    threshold: float | None,
    correction: str | None,
    crossover: float | None,
    count: int | None,
) -> Setting:
    """The setting that a caller names, completed but for the crossover."""
    correction = "sparse" if correction is None else correction
    if correction in ONE_SIDED:
        raise InputError(f"correction {correction!r}: is of the convolutions of a model")
    if correction == "sparse" and threshold is None:
        threshold = DEFAULT_THRESHOLD
    if count is None and isinstance(correction, str):
        count = DEFAULT_COUNTS.get(correction)
    return Setting(bits, correction, threshold, crossover, count)


def _crossover(operands: Operands, bits: int, place: Place) -> float:
    """That of the device, measured where there is a folder that keeps it."""
    workload = ResidualGemm(operands.m, operands.n, operands.k, bits, b_order=operands.b_order)
    measure = partial(measured_crossover, cache_dir=place.cache_dir)
    return crossover_of(workload, place.host, place.cache_dir, measure)


def _within(
    operands: Operands, setting: Setting, tolerance: float, place: Place, rng: np.random.Generator
) -> ResidualProduct:
    """The product under the cheapest setting within the tolerance."""
    a, b = operands.on_host
    block = Block.drawn(a, b, setting.bits, rng)
    candidates = in_order_of_cost(block, setting, tolerance)
    found = cheapest_within(
        a, b, candidates, tolerance, lambda one: _compute(operands, one, place, rng), rng
    )
    candidate, error = found.candidate, found.error
    return ResidualProduct(
        found.y, candidate.setting, candidate.densities, error.value, error.bound
    )


def _compute(operands: Operands, setting: Setting, place: Place, rng: np.random.Generator) -> Any:
    """y [m, n] under a setting."""
    if setting.correction == "channels":
        a, b = with_channels(*operands.on_host, setting.bits, setting.count or 0)
        return _compute(
            make_operands(a, b, setting.bits), Setting(setting.bits, "none"), place, rng
        )
    if setting.correction == "low-rank":
        left, right = low_rank_terms(*operands.on_host, setting.bits, setting.count or 0, rng)
        y = _compute(operands, Setting(setting.bits, "none"), place, rng)
        return (y if isinstance(y, np.ndarray) else y.numpy()) + left @ right
    plain = setting.plainest
    extents = (operands.m, operands.n, operands.k)
    workload = ResidualGemm(*extents, plain.bits, plain.correction, operands.b_order)
    return place.operator(workload, plain.constants)(operands.a, operands.b)
