"""What the steps of a fusion compute, as TE expressions; `step_numpy.py` says the same."""

from __future__ import annotations

from collections.abc import Callable

from autoq.graph.fallback.te_elementwise import ELEMENTWISE
from autoq.graph.fallback.te_movement import MOVEMENT
from autoq.graph.fallback.te_reductions import REDUCTIONS
from autoq.graph.fallback.te_value import Value
from autoq.graph.fallback.te_windows import WINDOWS

STEPS: dict[str, Callable[..., Value]] = {**ELEMENTWISE, **MOVEMENT, **REDUCTIONS, **WINDOWS}
"""The Value of each step's op, from the step and the Values of its arguments."""
