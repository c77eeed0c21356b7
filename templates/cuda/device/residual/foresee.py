"""The stages that know what matters of both sides before the product, and the product behind them.

They are of use where no two products of a sum have opposite signs, which is decided by the signs of
all values, and where both sides have lists. `FORESEEN` says whether they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm.tirx import PrimFunc

from autoq.templates.cuda.device.launch.thread_kernel import call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.residual.foreseen.cuts_ahead import cuts_ahead_kernel
from autoq.templates.cuda.device.residual.foreseen.weigh_side import CLASH
from autoq.templates.cuda.device.residual.plan import ResidualPlan
from autoq.templates.cuda.device.residual.program_stages import WHOLE, Stages
from autoq.templates.cuda.device.residual.select import select_kernel
from autoq.templates.cuda.device.residual.sides import SIDES, Sides
from autoq.templates.cuda.device.residual.turn import turn_kernel
from autoq.templates.cuda.device.residual.value_steps import value_lists
from autoq.templates.program import Program
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec

FORESEEN = TensorSpec("foreseen", (2,), "int32")
"""Whether the product was compensated in its epilogue, and whether other kernels do it."""

_DECIDE = r"""
__device__ __forceinline__ void decide(
    const int* clash, const void* kept, const float* crossover, int* foreseen, int* whole,
    int thread) {
  if (thread > 0) return;
  const bool cancels = __ldcg(clash) && __ldcg(clash + 1);
  const bool listed = way_of(kept, crossover, 0) == LISTED && way_of(kept, crossover, 1) == LISTED;
  foreseen[0] = !cancels && listed, foreseen[1] = cancels || !listed;
  whole[0] = whole[1] = 0;
}
"""


def _decide_kernel(parameters: Sequence[TensorSpec], sides: Sides, target: Target) -> PrimFunc:
    """Parameters those of `decide`."""
    functions = DeviceNamespace("foreseen", SIDES + _DECIDE, {}, sides.sizes())

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        call(functions.function("decide"), *pointers, thread)

    return thread_kernel(parameters, 1, 32, target, body)


def foresee(
    found: Stages, plan: ResidualPlan, compensated: Program, constants: Mapping[str, TensorSpec],
    target: Target,
) -> None:  # fmt: skip
    """Weigh both sides, list what matters of them, and multiply if that is all.

    compensated: the product over arrays of the plan, whose one workspace are residuals of a in
    panels as high as its tiles; constants: threshold and crossover.
    """
    sides = plan.value_sides
    values = plan.rows("a_values"), plan.weights("b_values")
    _weigh_sides(found, plan, target)
    a, b = plan.weighed_sides
    given = [a.sums, a.weights, values[1], b.squares, plan.a_scale, plan.b_scale,
             plan.a_magnitudes, plan.b_magnitudes, constants["threshold"]]  # fmt: skip
    kernel = cuts_ahead_kernel(given, sides, a, plan.layout, target)
    found.add(kernel, given, [*sides.cuts, sides.kept])
    searched, lists = [plan.a_peaks, plan.b_peaks, *values], value_lists(sides)
    kernel = select_kernel(searched, sides, plan.vectors, plan.layout, target, values=True)
    found.add(kernel, [*searched, *sides.cuts, sides.kept], [*lists, sides.kept])
    decides = [CLASH, sides.kept, constants["crossover"]]
    kernel = _decide_kernel([*decides, FORESEEN, WHOLE], sides, target)
    found.add(kernel, decides, [FORESEEN, WHOLE])
    first = len(found.stages)
    residual, (panels,) = plan.rows("a_residual"), [s.spec for s in compensated.workspaces]
    turning = turn_kernel(
        [residual, None], [panels, None], (plan.workload.m, plan.workload.n), plan.vectors,
        plan.workload.k, plan.layout, target, panels.shape[2],
    )  # fmt: skip
    found.add(turning, [residual], [panels])
    names = {"x": "a_values", "weight": "b_values"}
    found.multiply(compensated, names, None, None, target)
    found.guard_from(first, FORESEEN, 0, target)


def _weigh_sides(found: Stages, plan: ResidualPlan, target: Target) -> None:
    """A pass over b for its weights, then one over a for its own and for sums by those of b."""
    a, b = plan.weighed_sides
    given = [plan.weights("b_values"), plan.b_scale]
    found.add(b.kernel(given, target), given, b.written(False))
    found.add(b.adding(None, target), b.given, [b.weights, b.signs])
    given = [plan.rows("a_values"), plan.a_scale, b.weights]
    found.add(a.kernel(given, target), given, a.written(True))
    found.add(a.adding(b.signs, target), [*a.given, b.signs], [a.weights, CLASH])
