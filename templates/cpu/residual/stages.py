"""The stages of a residual product on a CPU, and the arrays between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr, PrimFunc

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cpu.frame import task_kernel
from autoq.templates.cpu.residual.arrange import arrange_kernel
from autoq.templates.cpu.residual.config import ResidualCpuConfig
from autoq.templates.cpu.residual.outputs import Outputs
from autoq.templates.cpu.residual.product import RegisterTiles, Term
from autoq.templates.cpu.residual.quantise_columns import ColumnQuantisation
from autoq.templates.cpu.residual.quantise_rows import RowQuantisation
from autoq.templates.cpu.residual.words import WordTiles, word_dot
from autoq.templates.cpu.vector import load, store
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.program import Program, Stage, Workspace
from autoq.templates.target import Target

PRODUCT = Term("a_rows", "a_shift", "b_values")
OF_A = Term("a_rows", "a_shift", "b_rest")
OF_B = Term("a_rest_rows", "a_rest_shift", "b_values")
_THREADS_PRODUCTS = 1 << 22
"""Products of bytes that take one core as long as to wake another one for each of ten stages."""
_PARTS = 4
"""Tasks for each core where rows or words are walked that take equally long."""


Emit = Callable[[dict[str, Buffer], Expr], None]
"""(buffers by name, task): writes a task."""


@dataclass
class ResidualStages:
    """Stages as they are added, and the specs of their arrays by name; target is None for packing.

    Arrays of a have rows, those of b tiles; what is padded is padded to whole tiles of columns.
    """

    workload: ResidualGemm
    config: ResidualCpuConfig
    target: Target | None = None
    stages: list[Stage] = field(default_factory=list)
    specs: dict[str, TensorSpec] = field(default_factory=dict)

    @property
    def columns(self) -> WordTiles:
        """How columns of b lie."""
        return WordTiles(self.workload.n, self.workload.k, self.config.columns)

    @property
    def rows(self) -> WordTiles:
        """How rows of a lie where they are the columns of a product, which is transposed."""
        return WordTiles(self.workload.m, self.workload.k, self.config.columns)

    @property
    def rests(self) -> bool:
        """Whether residuals take part."""
        return self.workload.correction != "none"

    @property
    def chooses(self) -> bool:
        """Whether a threshold says what takes part."""
        return self.workload.correction == "sparse"

    @property
    def tasks(self) -> int:
        """Tasks of a walk."""
        return _PARTS * self.target.units if self.threads else 1

    @property
    def threads(self) -> bool:
        """Whether there is enough to do for more than one thread."""
        work = self.workload
        return work.m * work.n * work.k >= _THREADS_PRODUCTS

    @property
    def quantised_b(self) -> tuple[TensorSpec, ...]:
        """b as products take it, where it is quantised beforehand."""
        parts = ColumnQuantisation(
            "b", self.columns, self.workload.bits, 1, self.rests, self.chooses
        )
        return parts.writes

    def program(self) -> Program:
        """All stages, with a workspace for each array that is neither given nor the result."""
        self._quantise_a()
        if not self.workload.constant_b:
            self._quantise_b()
        self._multiply()
        return Program(tuple(self.stages), tuple(Workspace(spec) for spec in self.specs.values()))

    def add(self, function: PrimFunc, reads: Sequence[str], writes: Sequence[TensorSpec]) -> None:
        """A stage; what it writes becomes a workspace."""
        names = tuple(spec.name for spec in writes)
        self.stages.append(Stage(function, tuple(reads), names))
        self.specs.update({spec.name: spec for spec in writes if spec.name != "y"})

    def _add_tasks(self, specs: Sequence[TensorSpec], tasks: int, emit: Emit, name: str) -> None:
        """A stage of tasks, of which the last of specs is written."""
        *reads, written = specs
        function = task_kernel(specs, tasks, emit, name, self.threads)
        self.add(function, [spec.name for spec in reads], [written])

    def _quantise_a(self) -> None:
        work = self.workload
        rows = RowQuantisation(
            "a", work.m, work.k, work.bits, self.rows.padded, self.rests, self.chooses
        )
        self.add(rows.kernel(self.tasks), ["a"], rows.writes)

    def _quantise_b(self) -> None:
        work, tiles = self.workload, self.columns
        if work.b_order == "kn":
            parts = min(self.tasks, tiles.words)
            columns = ColumnQuantisation("b", tiles, work.bits, parts, self.rests, self.chooses)
            self.add(columns.reach_kernel(), ["b"], [columns.reach])
            self.add(columns.kernel(), ["b", columns.reach.name], columns.writes)
            return
        rows = RowQuantisation(
            "b", work.n, work.k, work.bits, tiles.padded, self.rests, self.chooses
        )
        self.add(rows.kernel(self.tasks), ["b"], rows.writes)
        for source, name in (("b_rows", "b_values"), ("b_rest_rows", "b_rest")):
            if source in self.specs:
                self.add(
                    arrange_kernel(tiles, source, name, self.threads), [source], [tiles.spec(name)]
                )

    def _multiply(self) -> None:
        """The product, with the full correction or none, straight to y."""
        work, y = self.workload, self.workload.outputs[0]
        register_tiles = self._register_tiles()
        terms = (PRODUCT, OF_A, OF_B) if self.rests else (PRODUCT,)
        reads = self._scaled({name for term in terms for name in vars(term).values()})

        def emit(buffers: dict[str, Buffer], task: Expr) -> None:
            outputs = Outputs(work, buffers, self.columns.padded == work.n)
            line = T.alloc_buffer((self.config.tile_rows * self.config.columns,), "int32")

            def place(row: Expr, column: Expr) -> Expr:
                row = row % self.config.tile_rows
                return row * self.config.columns + column % self.config.columns

            def keep(row: Expr, column: Expr, sums: Expr, lanes: int) -> None:
                store(line, place(row, column), sums, lanes)

            def finish(row: Expr, column: Expr, sums: Expr, lanes: int) -> None:
                given = (
                    (load(line, place(row, column), lanes), sums) if self.rests else (sums, None)
                )
                outputs.put(row, column, outputs.compensated(*given, lanes), lanes)

            parts = [([PRODUCT], keep), ([OF_A, OF_B], finish)]
            register_tiles.emit(buffers, task, parts if self.rests else [([PRODUCT], finish)])

        specs = [self._spec(name) for name in reads]
        self._add_tasks((*specs, y), register_tiles.tasks, emit, "product")

    def _scaled(self, names: set[str]) -> list[str]:
        """Names of arrays, with those by which sums are scaled."""
        bias = ["bias"] if self.workload.bias else []
        return [*sorted(names), "a_scale", "b_scale", *bias]

    def _register_tiles(self) -> RegisterTiles:
        config = self.config
        return RegisterTiles(
            self.workload.m, self.columns, config.tile_rows, config.block_tiles,
            word_dot(self.target),
        )  # fmt: skip

    def _spec(self, name: str) -> TensorSpec:
        """The array of a name."""
        if name in self.specs:
            return self.specs[name]
        if name == "bias":
            return TensorSpec("bias", (self.columns.padded,), "float32")
        if name in ("threshold", "crossover"):
            return TensorSpec(name, (1,), "float32")
        return next(spec for spec in self.quantised_b if spec.name == name)
