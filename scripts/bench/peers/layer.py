"""The layer that peers compute: an int8 convolution, its random data and its exact result."""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass

import numpy as np

from autoq.templates.arrays.layout import NHWC
from autoq.templates.epilogue import Epilogue, apply_epilogue, pack_scalars
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.float_conv2d import FloatConv2d
from autoq.templates.oracle.reference import reference

# Even batches repeat with this period: a reference of a few images then checks every element.
_PERIOD = 2


@dataclass(frozen=True)
class Layer:
    """An int8 NHWC convolution with int8 output and, where `workload` has one, an int8 residual.

    forms: equal formulations of the layer that a peer may choose from, by name. A ResNet's first
    layer is a 7x7 convolution over 3 channels, perhaps padded to 4, or one of 4x4 over blocks of
    2x2 pixels, padded to 16; every other layer has one form.
    """

    forms: tuple[tuple[str, Conv2d], ...]

    @property
    def workload(self) -> Conv2d:
        """The first form."""
        return self.forms[0][1]


def layer_of(workload: Conv2d | FloatConv2d) -> Layer:
    """What peers are given for a workload of autoq's: int8 activations without zero points.

    Peers that compute in float16 take the same for a convolution of float16.
    """
    if isinstance(workload, FloatConv2d):
        w, epilogue = workload, Epilogue("int8", "int8" if workload.residual else None)
        workload = Conv2d(
            w.n, w.h, w.w, w.c, w.k, w.r, w.s, w.stride, w.padding, w.dilation, w.groups,
            epilogue=epilogue,
        )  # fmt: skip
    plain = dataclasses.replace(
        workload,
        in_dtype="int8",
        zero_point_border=False,
        in_layout=NHWC,
        out_layout=NHWC,
        epilogue=Epilogue("int8", "int8" if workload.epilogue.residual_dtype else None),
    )
    if (workload.r, workload.s, workload.c) != (4, 4, 16):
        return Layer((("", plain),))
    image = dataclasses.replace(
        plain, h=2 * plain.h, w=2 * plain.w, c=3, r=7, s=7, stride=(2, 2), padding=(3, 3, 3, 3)
    )
    return Layer(
        (
            ("7x7 over 3 channels", image),
            ("7x7 over 4 channels", dataclasses.replace(image, c=4)),
            ("4x4 over 16 channels", plain),
        )
    )


def alpha(workload: Conv2d) -> float:
    """A scale that spreads results over the range of int8, so that some meet its bounds."""
    return float(np.float32(60 / _spread(workload)))


def _spread(workload: Conv2d) -> float:
    """Standard deviation of an accumulator over random bytes."""
    return 74.0**2 * math.sqrt(math.prod(workload.weight_shape[1:]))


class LayerData:
    """Random data of one form, full range, and what its output must be.

    x int8 [n, h, w, c], weight int8 [k, r, s, c], scale float32 [k] around `alpha(workload)`,
    residual int8 [n, p, q, k] or None.
    """

    def __init__(self, workload: Conv2d, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.workload = workload
        self.period = workload.n if workload.n % _PERIOD else _PERIOD
        few = dataclasses.replace(workload, n=self.period)
        self._few_x = _bytes(rng, few.x_shape)
        self.weight = _bytes(rng, workload.weight_shape)
        self._few_residual = _bytes(rng, few.y_shape) if workload.epilogue.residual_dtype else None
        self.scale = (rng.uniform(40, 90, workload.k) / _spread(workload)).astype(np.float32)

    @property
    def x(self) -> np.ndarray:
        return self._repeat(self._few_x)

    @property
    def residual(self) -> np.ndarray | None:
        return None if self._few_residual is None else self._repeat(self._few_residual)

    def expected(self, per_channel: bool) -> np.ndarray:
        """The output of the first `period` images, scaled by `scale` or by `alpha`.

        Saturated round-half-even of accumulator times scale, plus the residual.
        """
        scale = self.scale if per_channel else np.full_like(self.scale, alpha(self.workload))
        return apply_epilogue(
            self.workload.epilogue,
            self._accumulators,
            np.zeros(self.workload.k, np.int32),
            scale,
            pack_scalars(low=-128.0, high=127.0),
            self._few_residual,
        )

    def max_steps(self, y: np.ndarray, per_channel: bool) -> int:
        """Largest difference of any element of the whole output `y` from `expected`."""
        groups = y.reshape(-1, *self.expected(per_channel).shape)
        expected = self.expected(per_channel)
        if all(np.array_equal(group, expected) for group in groups):
            return 0
        wide = expected.astype(np.int16)
        return max(int(np.abs(group - wide).max()) for group in groups)

    @functools.cached_property
    def _accumulators(self) -> np.ndarray:
        form = dataclasses.replace(self.workload, n=self.period, epilogue=Epilogue("int32"))
        zeros = {"bias": np.zeros(form.k, np.int32), "scalars": pack_scalars()}
        return reference(form, [self._few_x], {"weight": self.weight, **zeros})

    def _repeat(self, images: np.ndarray) -> np.ndarray:
        return np.concatenate([images] * (self.workload.n // self.period))


def _bytes(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.frombuffer(rng.bytes(math.prod(shape)), np.int8).reshape(shape)
