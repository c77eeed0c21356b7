"""How far float32 sums of exact products may be off."""

from __future__ import annotations

import math

_LEAST = 2e-4


def lost_share(k: int) -> float:
    """The share of their root mean square that sums of k random products may lose.

    Tensor cores round toward zero the sum of each instruction, of 8 products at least, to 24
    significant bits (Fasi, Higham, Mikaitis and Pranesh, *Numerical Behavior of NVIDIA Tensor
    Cores*, 2021): a unit 2^-23 of the sum so far each time, in all less than k / 8 of the whole's
    root mean square. Never less than 2e-4 is given, which is so much of k = 13,000, and covers
    scales, bias and activation as well.
    """
    return max(_LEAST, 2.0**-23 * -(-k // 8))


def lost_share_of_e4m3(k: int) -> float:
    """What sums of k products of float8_e4m3fn on tensor cores may lose, of their root mean square.

    Tensor cores of compute capability 9.0 add such products with some 14 significant bits
    (DeepSeek-V3, arXiv:2412.19437, section 3.3.2). In each step, 32 products and the sum so far are
    aligned to the largest of them and cut behind its 13th fraction bit, so that each loses up to
    u = 2^-13 of that largest one: 33 independent errors with a variance of u^2 / 3 each. The sum so
    far is the largest as a rule; a random sum's square is on average half of its last one, and its
    exponent alone 0.54 of that. After s steps the error is normal with a deviation of u sqrt(3 s)
    of a sum's root mean square, and six of them are allowed. What is cut off the sum so far always
    makes it smaller, by half a unit of it on average: s u / 2 are allowed besides.
    """
    steps = -(-k // 32)
    return _LEAST + (6 * math.sqrt(3 * steps) + steps / 2) * 2.0**-13
