"""The frame of a CPU kernel: a function over arrays, in it a loop of tasks, and its scalars."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr, PrimFunc

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cpu.vector import flat, loop, tasks_loop


class KernelFrame:
    """A PrimFunc under construction; `result` is set when the frame is left."""

    result: PrimFunc

    def __init__(self, buffers: Mapping[str, Buffer]) -> None:
        self.buffers = dict(buffers)

    def __getitem__(self, name: str) -> Buffer:
        """Flat view of a parameter."""
        return flat(self.buffers[name])


@contextmanager
def kernel_frame(**parameters: tuple[tuple[int, ...], str]) -> Iterator[KernelFrame]:
    """Builds a PrimFunc named main whose parameters are buffers of (shape, dtype), in order."""
    with IRBuilder() as builder:
        with T.prim_func():
            T.func_name("main")
            T.func_attr({"tirx.noalias": True})
            names = parameters.items()
            frame = KernelFrame({name: T.arg(name, T.buffer(*spec)) for name, spec in names})
            yield frame
        frame.result = builder.get()


def task_kernel(
    specs: Sequence[TensorSpec],
    tasks: int,
    emit: Callable[[dict[str, Buffer], Expr], None],
    name: str = "main",
    threads: bool = True,
) -> PrimFunc:
    """A kernel over the arrays of specs; `emit(views, task)` writes a task, views flat by name.

    name is the function's `global_symbol`: what a stage of a program is called. Without `threads`
    one of them does all tasks, which takes less time than to wake others for little work.
    """
    parameters = {spec.name: (spec.shape, spec.dtype) for spec in specs}
    in_turn = tasks_loop if threads else loop
    with kernel_frame(**parameters) as frame, in_turn(tasks) as task:
        emit({name: frame[name] for name in frame.buffers}, task)
    return frame.result.with_attr("global_symbol", name)


def bind_scalars(scalars: Buffer, names: tuple[str, ...], row: int = 0) -> dict[str, Expr]:
    """Reads row `row` of a flat scalars operand [rows, len(names)] once, by name."""
    return {name: T.bind(scalars[row * len(names) + i]) for i, name in enumerate(names)}
