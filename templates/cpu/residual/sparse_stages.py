"""The stages of a sparsely compensated product on a CPU."""

from __future__ import annotations

from dataclasses import dataclass

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cpu.residual.arrange import arrange_kernel
from autoq.templates.cpu.residual.choose import SIDES, STRIDE, WHOLE, choose_kernel, is_whole
from autoq.templates.cpu.residual.correct import ListSums, SquareBlocks
from autoq.templates.cpu.residual.outputs import Outputs
from autoq.templates.cpu.residual.product import stored
from autoq.templates.cpu.residual.select import Selection, WordLists
from autoq.templates.cpu.residual.stages import OF_A, OF_B, PRODUCT, ResidualStages
from autoq.templates.cpu.residual.weigh import WeighedSums
from autoq.templates.cpu.residual.words import word_dot
from autoq.templates.cpu.vector import load


@dataclass
class SparseStages(ResidualStages):
    """Stages of a workload whose correction is sparse."""

    def _multiply(self) -> None:
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
        register_tiles, names = self._register_tiles(), list(vars(PRODUCT).values())
        sums = TensorSpec("sums", (self.workload.m, self.columns.padded), "int32")

        def emit(buffers: dict[str, Buffer], task: Expr) -> None:
            keep = stored(buffers["sums"], self.columns.padded)
            register_tiles.emit(buffers, task, [([PRODUCT], keep)])

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
        names = sorted({*vars(OF_A).values(), *vars(OF_B).values()})

        def emit(buffers: dict[str, Buffer], task: Expr) -> None:
            keep = stored(buffers["correction"], self.columns.padded)
            of_a, of_b = (is_whole(buffers["whole"], side) for side in SIDES)
            for condition, terms in (
                (T.And(of_a, of_b), [OF_A, OF_B]),
                (T.And(of_a, T.Not(of_b)), [OF_A]),
                (T.And(of_b, T.Not(of_a)), [OF_B]),
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
