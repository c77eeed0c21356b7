"""Totals that are read as floats from sums without their bias, and when they may be."""

from __future__ import annotations

import numpy as np
import pytest

from autoq.templates.epilogue import Epilogue, apply_epilogue, pack_scalars
from autoq.templates.epilogue.cuda.short_forms.bounds import MAGIC_BITS
from autoq.templates.epilogue.cuda.short_forms.fused_multiply_add import fused_multiply_add
from autoq.templates.epilogue.cuda.short_forms.read_sums import biased_terms
from autoq.templates.epilogue.cuda.short_forms.words import IS_READ

CHANNELS = 64
LEAST = np.float32(2.0**-149)
SHORT_SUMS, LONG_SUMS = float(1 << 21), float(1 << 28)


def scalars_of(dtype: str, place: int) -> np.ndarray:
    """Those of an output that is clamped to its type; place: of its zero point above the least."""
    least, most = (-128, 127) if dtype == "int8" else (0, 255)
    return pack_scalars(low=-place, high=most - least - place, zero_point=least + place)


def outputs(sums: np.ndarray, terms: tuple[np.ndarray, np.ndarray, np.ndarray]) -> np.ndarray:
    """What a kernel makes of int32 sums [trials, channels], as bytes without a sign."""
    numbers, added, scale = terms
    read = (sums + MAGIC_BITS).astype(np.int32).view(np.float32)
    value = (read + added) * scale
    zero_point = numbers["zero_point"].astype(np.int32).view(np.float32)
    placed = fused_multiply_add(value, LEAST, zero_point)
    bits = np.clip(placed, np.float32(0), np.float32(1)).view(np.int32)
    return np.minimum(bits, 255).astype(np.uint8) ^ np.uint8(numbers["turned"][0] & 0xFF)


def random_terms(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A scale and a bias of each channel."""
    scale = rng.uniform(5e-4, 2e-2, CHANNELS).astype(np.float32)
    scale[::7] = np.float32(2.0**-9)  # ties at every step
    return scale, rng.integers(-60000, 60000, CHANNELS)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("place", [0, 1, 121, 128, 255])
@pytest.mark.parametrize("largest", [SHORT_SUMS, LONG_SUMS])
def test_outputs_are_those_of_the_reference(dtype: str, place: int, largest: float) -> None:
    rng = np.random.default_rng(place)
    scale, bias = random_terms(rng)
    scalars = scalars_of(dtype, place)
    terms = biased_terms(Epilogue(dtype), scale, bias, largest, scalars)
    assert terms is not None and terms[0]["form"] == IS_READ
    steps = rng.integers(-300, 300, (400, CHANNELS)) + 0.5
    near = np.rint(steps / scale).astype(np.int64) - bias + rng.integers(-1, 2, steps.shape)
    far = rng.integers(-int(largest), int(largest), steps.shape)
    for sums in (near, far):
        kept = np.clip(sums, -int(largest), int(largest))
        expected = apply_epilogue(
            Epilogue(dtype),
            kept.astype(np.int32),
            bias.astype(np.int32),
            scale,
            scalars,
            None,
            None,
        )
        np.testing.assert_array_equal(outputs(kept, terms), expected.view(np.uint8))


def test_refused_where_totals_are_not_exact() -> None:
    scale, bias = random_terms(np.random.default_rng(3))
    epilogue, scalars = Epilogue("int8"), scalars_of("int8", 128)
    assert biased_terms(epilogue, scale, bias, LONG_SUMS, scalars) is not None
    small = np.where(np.arange(CHANNELS) == 5, np.float32(3e-5), scale)
    assert biased_terms(epilogue, small, bias, SHORT_SUMS, scalars) is not None
    assert biased_terms(epilogue, small, bias, LONG_SUMS, scalars) is None
    large = np.where(np.arange(CHANNELS) == 5, 1 << 23, bias)
    assert biased_terms(epilogue, scale, large, SHORT_SUMS, scalars) is None
    assert biased_terms(epilogue, scale, bias, 2.0 * LONG_SUMS * 4, scalars) is None
    narrower = pack_scalars(low=-100, high=100, zero_point=0)
    assert biased_terms(epilogue, scale, bias, SHORT_SUMS, narrower) is None
