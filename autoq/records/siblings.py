"""GPUs that are built from the same chip, whose records may stand in for one another's."""

from __future__ import annotations

SIBLINGS = (
    # GH100 with 132 multiprocessors of equal limits, by driver name. Memory differs: 3.35, 4.0 and
    # 4.8 TB/s by their datasheets.
    ("NVIDIA H200", "NVIDIA H100 80GB HBM3", "NVIDIA GH200 480GB"),
)
"""Groups of devices, by the names that drivers give them."""


def siblings(device: str) -> tuple[str, ...]:
    """The other devices of the same chip, in the order in which their records are preferred."""
    for group in SIBLINGS:
        if device in group:
            return tuple(name for name in group if name != device)
    return ()
