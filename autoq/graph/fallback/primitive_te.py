"""The primitives of a fusion as TE expressions; `primitive_numpy.py` says the same."""

from __future__ import annotations

from collections.abc import Callable

from autoq.graph.fallback.te_elementwise import ELEMENTWISE
from autoq.graph.fallback.te_movement import MOVEMENT
from autoq.graph.fallback.te_reductions import REDUCTIONS
from autoq.graph.fallback.te_value import Value
from autoq.graph.fallback.te_windows import WINDOWS

PRIMITIVES: dict[str, Callable[..., Value]] = {**ELEMENTWISE, **MOVEMENT, **REDUCTIONS, **WINDOWS}
"""The Value of each primitive's op, from the primitive and the Values of its arguments."""
