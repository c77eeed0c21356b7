"""Masked matrices drawn by torch on the GPU: numpy takes ten seconds for two of 16384 by 16384."""

from __future__ import annotations

from typing import Any

import numpy as np


def masked_pair_on_gpu(size: int, density: float) -> tuple[np.ndarray, np.ndarray]:
    """Two square matrices as of `distributions.masked_pair`, of other random numbers."""
    import torch

    source = torch.Generator("cuda").manual_seed(size)

    def uniform(*shape: int) -> Any:
        return torch.rand(shape, generator=source, device="cuda")

    signs = torch.where(uniform(size) < 0.5, -1.0, 1.0)

    def matrix(along: Any) -> np.ndarray:
        values = uniform(size, size).mul_(0.3).add_(0.3)
        large = uniform(size, size).mul_(0.05).add_(0.95)
        drawn = torch.where(uniform(size, size) < density, large, values)
        return drawn.mul_(along).cpu().numpy()

    pair = matrix(signs), matrix(signs[:, None])
    torch.cuda.empty_cache()
    return pair
