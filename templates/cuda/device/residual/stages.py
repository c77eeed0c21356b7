"""The program of a residual product: quantise, multiply, find what matters, correct."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tvm.tirx import PrimFunc

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.residual.cut_vectors import cut_kernel
from autoq.templates.cuda.device.residual.dense_sides import fill_sides_kernel
from autoq.templates.cuda.device.residual.guard import guarded
from autoq.templates.cuda.device.residual.nibbles import nibbles_kernel, nibbles_of
from autoq.templates.cuda.device.residual.parts_of_sums import PartsOfSums
from autoq.templates.cuda.device.residual.plan import ResidualPlan
from autoq.templates.cuda.device.residual.quantise.quantise_panels import TAKEN, panels_kernel
from autoq.templates.cuda.device.residual.select import select_kernel
from autoq.templates.cuda.device.residual.turn import turn_kernel
from autoq.templates.program import Initially, Program, Stage, Workspace
from autoq.templates.target import Target

WHOLE = TensorSpec("whole_sides", (2,), "int32")
"""An array that says which sides take part by products."""
THRESHOLD, CROSSOVER = (TensorSpec(name, (1,), "float32") for name in ("threshold", "crossover"))


@dataclass
class _Stages:
    """Stages in their order, and the workspaces that they are the first to write.

    given: the workload's arrays and constants.
    """

    given: frozenset[str]
    stages: list[Stage] = field(default_factory=list)
    workspaces: dict[str, Workspace] = field(default_factory=dict)

    def add(
        self,
        function: PrimFunc,
        reads: Sequence[TensorSpec | None],
        writes: Sequence[TensorSpec | None],
    ) -> None:
        """A kernel whose parameters are `reads`, then `writes`; None for those it lacks."""
        read = [spec.name for spec in reads if spec]
        written = [spec for spec in writes if spec]
        self.stages.append(Stage(function, tuple(read), tuple(spec.name for spec in written)))
        for spec in written:
            if spec.name not in self.given:
                self.workspaces.setdefault(spec.name, Workspace(spec))

    @property
    def written(self) -> frozenset[str]:
        """Arrays that are there."""
        return self.given | self.workspaces.keys()

    def multiply(
        self, product: Program, names: Mapping[str, str], y: TensorSpec | None, guard: int | None,
        target: Target,
    ) -> None:  # fmt: skip
        """The product over these arrays; guard: the word of `WHOLE` that says whether it is due."""
        part = product.renamed(names)
        for stage in part.stages:
            if guard is not None:
                function = guarded(stage.function, WHOLE.shape[0], guard, target)
                stage = Stage(function, (WHOLE.name, *stage.reads), stage.writes)
            self.stages.append(stage)
        for space in part.workspaces:
            self.workspaces.setdefault(space.spec.name, space)
        if y:
            self.workspaces[y.name] = Workspace(y)

    @property
    def program(self) -> Program:
        return Program(tuple(self.stages), tuple(self.workspaces.values()))


def residual_program(
    plan: ResidualPlan,
    product: Program,
    weighed: Program | None,
    constants: Sequence[TensorSpec],
    target: Target,
) -> Program:
    """The program of a plan around that of its inner product; constants as `packed` says.

    weighed: the product that also writes arrays of `PartsOfSums`, if there is one.
    """
    work = plan.workload
    names = [spec.name for spec in (*work.inputs, *constants, *work.outputs)]
    found = _Stages(frozenset(names))
    if not work.constant_b:
        _quantise_b(found, plan, target)
    _quantise_a(found, plan, target)
    if plan.sparse:
        _turn_residuals(found, plan, target)
    x, weight = _operands(found, plan, "a_values", "b_values", None, target)
    given = {"x": x, "weight": weight, "bias": "no_bias"}
    if work.correction == "none":
        scales = {"row_scale": plan.a_scale.name, "scale": plan.b_scale.name}
        found.multiply(product, given | scales, None, None, target)
        return found.program
    first = weighed if plan.sparse and weighed else product
    found.multiply(first, given | {"y": "sums"}, plan.sums("sums"), None, target)
    some_a, some_b = "a_values", "b_values"
    if plan.sparse:
        _find_what_matters(found, plan, target)
        some_a, some_b = "a_some", "b_some"
    for side, (a, b) in enumerate(((some_a, "b_residual"), ("a_residual", some_b))):
        guard = side if plan.sparse else None
        x, weight = _operands(found, plan, a, b, guard, target)
        y = plan.sums(("by_a", "by_b")[side])
        names = {"x": x, "weight": weight, "bias": "no_bias", "y": y.name}
        found.multiply(product, names, y, guard, target)
    _correct(found, plan, target)
    return found.program


def _operands(
    found: _Stages, plan: ResidualPlan, a: str, b: str, guard: int | None, target: Target
) -> tuple[str, str]:
    """Names of what the product reads of these two: they themselves, or what has their nibbles."""
    if not plan.knobs.nibbles:
        return a, b
    specs = [plan.rows(a), plan.weights(b)]
    missing = [spec for spec in specs if nibbles_of(spec).name not in found.written]
    if missing:
        written = [nibbles_of(spec) for spec in missing]
        kernel, flag = nibbles_kernel(missing, target), []
        if guard is not None:
            kernel, flag = guarded(kernel, WHOLE.shape[0], guard, target), [WHOLE]
        found.add(kernel, [*flag, *missing], written)
    x, weight = (nibbles_of(spec).name for spec in specs)
    return x, weight


def _quantise_a(found: _Stages, plan: ResidualPlan, target: Target) -> None:
    work = plan.workload
    written = [
        plan.rows("a_values"),
        plan.rows("a_residual") if plan.compensates else None,
        plan.a_scale,
        *((plan.a_magnitudes, plan.a_peaks) if plan.sparse else (None, None)),
    ]
    kernel = plan.rows_of_a.kernel([work.a, None, *written], target)
    found.add(kernel, [work.a], written)


def _quantise_b(found: _Stages, plan: ResidualPlan, target: Target) -> None:
    work = plan.workload
    bias = plan.bias if plan.bias_at else None
    magnitudes, peaks = (plan.b_magnitudes, plan.b_peaks) if plan.sparse else (None, None)
    panels = plan.panels_of_b(target)
    turned = plan.sparse and panels is not None
    residual = plan.b_turned if turned else plan.weights("b_residual")
    written = [plan.weights("b_values"), residual if plan.compensates else None, plan.b_scale]
    if work.b_order == "nk":
        written += [magnitudes, peaks]
        kernel = plan.rows_of_b.kernel([work.b, bias, *written], target)
        found.add(kernel, [work.b, bias], written)
        return
    columns = plan.columns_of_b
    if panels:
        found.workspaces[TAKEN.name] = Workspace(TAKEN, Initially.STAYS_ZERO)
        reads, written = [work.b, bias, TAKEN], [*written, magnitudes, peaks]
        kernel = panels_kernel(columns, panels, turned, [*reads, *written], target)
        found.add(kernel, reads, [*written, TAKEN])
        return
    kernel = columns.find_largest(work.b, magnitudes, target)
    found.add(kernel, [work.b], [columns.parts, magnitudes])
    reads = [work.b, columns.parts, bias]
    written = [magnitudes, peaks, *written]
    found.add(columns.kernel([*reads, *written], target), reads, written)


def _turn_residuals(found: _Stages, plan: ResidualPlan, target: Target) -> None:
    """Turn residuals of a where no block holds its rows, and of b unless they are there."""
    work = plan.workload
    there = work.constant_b or plan.panels_of_b(target)
    due = not plan.holds_panel(target), not there
    given = [plan.rows("a_residual"), plan.weights("b_residual")]
    turned = [plan.a_turned, plan.b_turned]
    some = [[spec if one else None for spec, one in zip(specs, due, strict=True)]
            for specs in (given, turned)]  # fmt: skip
    if any(due):
        extents = work.m, work.n
        kernel = turn_kernel(*some, extents, plan.vectors, work.k, plan.layout, target)
        found.add(kernel, *some)


def _find_what_matters(found: _Stages, plan: ResidualPlan, target: Target) -> None:
    """Lists of both sides, or what products read in their stead."""
    sides, parts = plan.sides, _parts_of_sums(found, plan, target)
    values = [plan.rows("a_values"), plan.weights("b_values")]
    scales, magnitudes = (plan.a_scale, plan.b_scale), (plan.a_magnitudes, plan.b_magnitudes)
    given = [*parts.arrays, *scales, *magnitudes, THRESHOLD, plan.sums("sums")]
    searched = [plan.a_peaks, plan.b_peaks, *values]
    found.add(
        cut_kernel(given, searched, sides, parts, plan.vectors, plan.layout, target),
        [*given, *searched], [*sides.cuts, sides.kept],
    )  # fmt: skip
    found.add(
        select_kernel(searched, sides, plan.vectors, plan.layout, target),
        [*searched, *sides.cuts, sides.kept], [*sides.lists, sides.kept],
    )  # fmt: skip
    turned = plan.panels_of_b(target) is not None
    reads = [*values, *sides.cuts, sides.kept, CROSSOVER, plan.b_turned if turned else None]
    written = [plan.rows("a_some"), plan.weights("b_some"), WHOLE]
    written.append(plan.weights("b_residual") if turned else None)
    kernel = fill_sides_kernel([*reads, *written], sides, plan.vectors, plan.layout, target)
    found.add(kernel, reads, written)


def _parts_of_sums(found: _Stages, plan: ResidualPlan, target: Target) -> PartsOfSums:
    """What the product has left of its rows and columns, or a pass over it."""
    work, sums = plan.workload, plan.weighted_sums
    there = [found.workspaces.get(spec.name) for spec in sums.found.arrays]
    if None not in there:
        rows, columns = (space.spec.shape[0] for space in there if space)
        rough = {space.spec.dtype for space in there if space} == {"float32"}
        return PartsOfSums(work.m, work.n, rows, columns, rough)
    given = [plan.sums("sums"), plan.a_scale, plan.b_scale]
    found.add(sums.kernel(given, target), given, sums.found.arrays)
    return sums.found


def _correct(found: _Stages, plan: ResidualPlan, target: Target) -> None:
    work = plan.workload
    reads = [
        *map(plan.sums, ("sums", "by_a", "by_b")), plan.a_scale, plan.b_scale,
        plan.bias if work.bias else None,
    ]  # fmt: skip
    if not plan.sparse:
        kernel = plan.combination.kernel([*reads, *work.outputs], target)
        found.add(kernel, reads, work.outputs)
        return
    # A pass over the product ends with its first rows.
    passed = any(stage.writes[0] == plan.weighted_sums.found.arrays[0].name
                 for stage in found.stages)  # fmt: skip
    correction = plan.correction(target, not passed)
    of_a = plan.rows("a_residual") if plan.holds_panel(target) else plan.a_turned
    reads += [plan.b_turned, of_a, *plan.sides.lists, WHOLE]
    found.add(correction.kernel([*reads, *work.outputs], target), reads, work.outputs)
