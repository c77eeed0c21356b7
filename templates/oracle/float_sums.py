"""How far float32 sums of exact products may be off."""

from __future__ import annotations

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
