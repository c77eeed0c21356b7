"""The stages of a residual product on a CPU, and the arrays between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr, PrimFunc

from autoq.templates.cpu.frame import task_kernel
from autoq.templates.cpu.residual.arrange import arrange_kernel
from autoq.templates.cpu.residual.choose import SIDES, STRIDE, WHOLE, choose_kernel, is_whole
from autoq.templates.cpu.residual.config import ResidualCpuConfig
from autoq.templates.cpu.residual.correct import ListSums, SquareBlocks
from autoq.templates.cpu.residual.outputs import Outputs
from autoq.templates.cpu.residual.product import RegisterTiles, Term, stored
from autoq.templates.cpu.residual.quantise_columns import ColumnQuantisation
from autoq.templates.cpu.residual.quantise_rows import RowQuantisation
from autoq.templates.cpu.residual.select import Selection, WordLists
from autoq.templates.cpu.residual.weigh import WeighedSums
from autoq.templates.cpu.residual.words import WordTiles, word_dot
from autoq.templates.cpu.vector import load, store
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.program import Program, Stage, Workspace
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec

_PRODUCT = Term("a_rows", "a_shift", "b_values")
_OF_A = Term("a_rows", "a_shift", "b_rest")
_OF_B = Term("a_rest_rows", "a_rest_shift", "b_values")
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
        if self.chooses:
            self._sparse()
        else:
            self._dense()
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

    def _sparse(self) -> None:
        """The product, what is kept by its sums, and the corrections of both sides."""
        self._product_sums()
        parts = min(self.tasks, self.workload.m)
        names = ("sums", "a_scale", "b_scale", "a_magnitude", "b_magnitude")
        given = tuple(self._spec(name) for name in names)
        weighed = WeighedSums(self.workload.m, self.columns.padded, parts, given)
        self.add(weighed.kernel(), names, weighed.writes)
        self._select()
        correction = TensorSpec("correction", self._spec("sums").shape, "int32")
        self._dense_correction(correction)
        self._correct()

    def _product_sums(self) -> None:
        """P as integers."""
        register_tiles, names = self._register_tiles(), list(vars(_PRODUCT).values())
        sums = TensorSpec("sums", (self.workload.m, self.columns.padded), "int32")

        def emit(buffers: dict[str, Buffer], task: Expr) -> None:
            keep = stored(buffers["sums"], self.columns.padded)
            register_tiles.emit(buffers, task, [([_PRODUCT], keep)])

        specs = [self._spec(name) for name in names]
        self._add_tasks((*specs, sums), register_tiles.tasks, emit, "product")

    def _select(self) -> None:
        """Lists of both sides, and which of them take part as a whole."""
        of_a, of_b = self._lists
        dot, specs = word_dot(self.target), self.specs
        rows = Selection(of_a, dot, specs["a_rows"], specs["a_weight"], self.tasks)
        self.add(rows.rows_kernel(), [spec.name for spec in rows.reads], of_a.specs)
        columns = Selection(of_b, dot, self._spec("b_values"), specs["b_weight"], self.tasks)
        kernel = columns.columns_kernel(self.columns, self.threads)
        self.add(kernel, [spec.name for spec in columns.reads], of_b.specs)
        kernel = choose_kernel(self.workload, self._lists)
        self.add(kernel, ["a_kept", "b_kept", "crossover"], [WHOLE, STRIDE])

    @property
    def _lists(self) -> tuple[WordLists, WordLists]:
        """Those of rows of a, and of columns of b, padded ones too."""
        work, block = self.workload, self.config.list_words
        return (
            WordLists("a", work.m, work.k, block),
            WordLists("b", self.columns.padded, work.k, block),
        )

    def _dense_correction(self, correction: TensorSpec) -> None:
        """What sides that take part as a whole add to Q; other elements stay as they were."""
        register_tiles = self._register_tiles()
        names = sorted({*vars(_OF_A).values(), *vars(_OF_B).values()})

        def emit(buffers: dict[str, Buffer], task: Expr) -> None:
            keep = stored(buffers["correction"], self.columns.padded)
            of_a, of_b = (is_whole(buffers["whole"], side) for side in SIDES)
            for condition, terms in (
                (T.And(of_a, of_b), [_OF_A, _OF_B]),
                (T.And(of_a, T.Not(of_b)), [_OF_A]),
                (T.And(of_b, T.Not(of_a)), [_OF_B]),
            ):
                with T.If(condition), T.Then():
                    register_tiles.emit(buffers, task, [(terms, keep)])

        specs = (WHOLE, *(self._spec(name) for name in names), correction)
        self._add_tasks(specs, register_tiles.tasks, emit, "product_whole")

    def _correct(self) -> None:
        """Q of the lists, and y."""
        work, y, dot = self.workload, self.workload.outputs[0], word_dot(self.target)
        rest = self.rows.spec("a_rest")
        sparse_b = (WHOLE, lambda buffers: T.Not(is_whole(buffers["whole"], "b")))
        arranged = arrange_kernel(self.rows, "a_rest_rows", "a_rest", self.threads, sparse_b)
        self.add(arranged, [WHOLE.name, "a_rest_rows"], [rest])
        sides = (self.rows, self.columns)
        blocks = SquareBlocks(self._lists, sides, self.config.list_tiles, dot)
        lists = [spec.name for side in self._lists for spec in side.specs]
        given = {"sums", "correction", "a_rest", "b_rest"}
        names = [WHOLE.name, STRIDE.name, *lists, *self._scaled(given)]

        def emit(buffers: dict[str, Buffer], task: Expr) -> None:
            outputs = Outputs(work, buffers, self.columns.padded == work.n)
            mine, turned = blocks.sums(task)
            self._add_lists(buffers, mine, turned)

            def finish(row: Expr, column: Expr, place: Expr) -> None:
                at = row * self.columns.padded + column
                sums = load(buffers["sums"], at, dot.lanes)
                more = load(mine.sums, place, dot.lanes)
                outputs.put(row, column, outputs.compensated(sums, more, dot.lanes), dot.lanes)

            mine.each(finish)

        specs = [self._spec(name) for name in names]
        self._add_tasks((*specs, y), blocks.tasks, emit, "correct")

    def _add_lists(self, buffers: dict[str, Buffer], mine: ListSums, turned: ListSums) -> None:
        """Q of a block: what sides that take part as a whole have given it, and their lists."""
        of_a, of_b = (is_whole(buffers["whole"], side) for side in SIDES)
        stride = buffers["stride"]

        def given(row: Expr, column: Expr) -> Expr:
            return load(buffers["correction"], row * self.columns.padded + column, mine.dot.lanes)

        with T.If(of_a):
            with T.Then():
                mine.fill(given)
            with T.Else():
                with T.If(of_b):
                    with T.Then():
                        mine.fill(lambda row, at: given(row, at) + mine.shift(buffers, row))
                    with T.Else():
                        mine.fill(lambda row, at: mine.shift(buffers, row))
                mine.add(buffers, buffers["b_rest"], stride[0])
        with T.If(T.Not(of_b)), T.Then():
            turned.fill(lambda row, at: turned.shift(buffers, row))
            turned.add(buffers, buffers["a_rest"], stride[1])
            mine.add_turned(turned)

    def _dense(self) -> None:
        """The product, with the full correction or none, straight to y."""
        work, y = self.workload, self.workload.outputs[0]
        register_tiles = self._register_tiles()
        terms = (_PRODUCT, _OF_A, _OF_B) if self.rests else (_PRODUCT,)
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

            parts = [([_PRODUCT], keep), ([_OF_A, _OF_B], finish)]
            register_tiles.emit(buffers, task, parts if self.rests else [([_PRODUCT], finish)])

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
