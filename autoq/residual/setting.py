"""How a product is corrected, and what came of it."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.errors import InputError

CORRECTIONS = ("none", "sparse", "full", "channels", "low-rank")
"""What corrects a direct product: nothing, the values that matter (`ResidualGemm`), all of both
residuals, those of a few k (`channels.py`), or a few directions of them (`low_rank.py`)."""

ONE_SIDED = ("activations", "weights")
"""What besides corrects a convolution: all of the residual of one factor, that of the other lost.

The activations of an image have one scale and filters one each, so that either may lose most.
"""

DEFAULT_THRESHOLD = 1.0
"""The threshold of the sparse correction."""

LARGEST_TOLERANCE = 1.0
"""A product of zeros has this relative error."""


@dataclass(frozen=True)
class Setting:
    """A correction and its parameters; those that it does not have are None.

    correction: of CORRECTIONS, or of ONE_SIDED for a convolution of a model. bits: 4 or 8.
    threshold, crossover: of "sparse", as in `ResidualGemm`. count: the residual channels that
    "channels" appends, or the rank of "low-rank".

    Raises InputError for values that none can have, and for a count where the correction has none.
    """

    bits: int = 8
    correction: str = "sparse"
    threshold: float | None = None
    crossover: float | None = None
    count: int | None = None

    def __post_init__(self) -> None:
        if self.correction not in (*CORRECTIONS, *ONE_SIDED):
            known = ", ".join(CORRECTIONS)
            raise InputError(f"correction {self.correction!r:.80}: choose one of {known}")
        if not isinstance(self.bits, numbers.Integral) or self.bits not in (4, 8):
            raise InputError(f"bits {self.bits!r:.80}: choose 4 or 8")
        object.__setattr__(self, "bits", int(self.bits))
        for name in ("threshold", "crossover"):
            value = getattr(self, name)
            if value is None:
                continue
            if self.correction != "sparse":
                raise InputError(f"{name} is of the sparse correction; it is {self.correction!r}")
            require_number(name, value, 0.0)
        counted = self.correction in ("channels", "low-rank")
        if self.count is not None and not counted:
            raise InputError(f"count is of channels and low-rank; it is {self.correction!r}")
        if counted and (type(self.count) is not int or self.count < 1):
            raise InputError(f"count {self.count!r:.80}: an integer from 1 on")

    @property
    def plainest(self) -> Setting:
        """The same numbers for less: a threshold of 0 corrects fully, infinity not at all."""
        if self.threshold is None:
            return self
        same = {0.0: "full", math.inf: "none"}.get(float(_single(self.threshold)))
        return self if same is None else Setting(self.bits, same)

    @property
    def constants(self) -> dict[str, np.ndarray]:
        """The constants of a `ResidualGemm`, but for matrices."""
        if self.correction != "sparse":
            return {}
        values = {"threshold": self.threshold, "crossover": self.crossover}
        return {name: np.array([_single(value)]) for name, value in values.items()}

    def __str__(self) -> str:
        named = {"none": "direct", "full": "full residual", "sparse": "sparse residual"}
        named |= {side: f"residual of the {side}" for side in ONE_SIDED}
        text = f"{self.bits} bits, {named.get(self.correction, self.correction)}"
        if self.threshold is not None:
            text += f" at threshold {self.threshold:.3g}"
        return text if self.count is None else f"{text} of {self.count}"


@dataclass(frozen=True)
class ResidualProduct:
    """A product `y` [m, n], float32, and how it was computed.

    setting: what corrected it. With a tolerance: densities, the shares of a's and of b's values
    that took part in the correction, on sampled rows and columns; relative_error, the Frobenius
    norm of the error as a share of that of the product, estimated by sampled rows, and
    error_bound, three standard errors above it. These are None without a tolerance.
    """

    y: Any
    setting: Setting
    densities: tuple[float, float] | None = None
    relative_error: float | None = None
    error_bound: float | None = None


def _single(value: Any) -> np.float32:
    """A number as a kernel takes it: infinite where it is too large for float32."""
    with np.errstate(over="ignore"):
        return np.float32(value)


def require_number(name: str, value: Any, least: float) -> None:
    """Raise InputError unless the value is a number from `least` on; infinity is one, NaN none."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InputError(f"{name} {value!r:.80}: a number is expected")
    try:
        number = float(value)
    except OverflowError:
        raise InputError(f"{name}: a number beyond the range of floats") from None
    if math.isnan(number):
        raise InputError(f"{name} {value!r:.80}: a number is expected")
    if number < least:
        raise InputError(f"{name} {value}: {least:g} or more")


def require_tolerance(value: Any) -> None:
    """Raise InputError unless the value is a relative error that can be asked for."""
    require_number("tolerance", value, 0.0)
    if not 0 < float(value) < LARGEST_TOLERANCE:
        raise InputError(f"tolerance {value}: a relative error between 0 and 1 is expected")


def generator(seed: object) -> np.random.Generator:
    """The random numbers of a seed; raises InputError for anything but an integer from 0 on."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InputError(f"seed {seed!r:.80}: an integer from 0 on")
    return np.random.default_rng(seed)
