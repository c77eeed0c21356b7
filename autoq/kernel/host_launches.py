"""Launches read out of a lowered host function, so that no host code has to be compiled.

All shapes are static, so the host part of a CUDA PrimFunc is straight-line: it encodes tensor maps
and launches kernels with constant extents.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tvm import tirx

from autoq.errors import BuildError
from autoq.runtime.kernel import Argument, Buffer, Im2colMap, Launch, Scalar, TiledMap

_TILED, _IM2COL = "runtime.cuTensorMapEncodeTiled", "autoq.cuTensorMapEncodeIm2col"
_TENSOR_HANDLE_FIELD = "tirx.tvm_struct_get"


def host_launches(
    function: tirx.PrimFunc, parameters: int
) -> tuple[tuple[Launch, ...], tuple[int, ...]]:
    """Launches of a packed-API host function and the bytes of its workspaces.

    Raises BuildError for host code that is not straight-line launches with constant arguments.
    """
    reader = _HostReader(args=function.params[1], parameters=parameters)
    for statement in _statements(function.body):
        reader.read(statement)
    if not reader.launches:
        raise BuildError("the function launches no kernel")
    return tuple(reader.launches), tuple(reader.workspaces)


def _statements(statement: Any) -> Iterator[Any]:
    """Statements in program order, containers opened."""
    kind = type(statement).__name__
    if kind == "SeqStmt":
        for child in statement.seq:
            yield from _statements(child)
    elif kind in ("For", "While"):
        raise BuildError("a loop on the host around kernel launches is not supported")
    else:
        yield statement
        body = getattr(statement, "body", None)
        if body is not None:
            yield from _statements(body)


@dataclass
class _HostReader:
    args: Any
    parameters: int
    definitions: dict[Any, Any] = field(default_factory=dict)
    maps: dict[Any, TiledMap | Im2colMap] = field(default_factory=dict)
    launches: list[Launch] = field(default_factory=list)
    workspaces: list[int] = field(default_factory=list)

    def read(self, statement: Any) -> None:
        kind = type(statement).__name__
        if kind == "Bind" or kind == "LetStmt":
            self.definitions[statement.var] = statement.value
        elif kind == "DeclBuffer":
            self.definitions[statement.buffer] = statement.data
        elif kind == "AllocBuffer":
            self.definitions[statement.buffer] = self._workspace(statement.buffer)
        elif kind == "Evaluate" and hasattr(statement.value, "op"):
            self._call(statement.value)

    def _workspace(self, buffer: Any) -> Buffer:
        elements = 1
        for extent in buffer.shape:
            elements *= int(extent)
        self.workspaces.append(elements * ((buffer.dtype.bits * buffer.dtype.lanes + 7) // 8))
        return Buffer(self.parameters + len(self.workspaces) - 1)

    def _call(self, call: Any) -> None:
        name = call.op.name
        if name == "tirx.tvm_call_packed" and str(call.args[0].value) in (_TILED, _IM2COL):
            self._encode(str(call.args[0].value), call.args[1], list(call.args[2:]))
        elif name == "tirx.tensormap_encode_tiled":
            raise BuildError("encode tensor maps with T.call_packed")
        elif name == "tirx.call_ffi_kernel":
            self._launch(call)

    def _encode(self, function: str, variable: Any, args: list[Any]) -> None:
        dtype, rank, index = str(args[0].value), int(args[1]), self._index(args[2])
        numbers = [int(value) for value in args[3:]]

        def take(count: int) -> Any:
            taken = tuple(numbers[:count])
            del numbers[:count]
            return taken

        if function == _TILED:
            dims, strides, box, steps = take(rank), take(rank - 1), take(rank), take(rank)
            self.maps[variable] = TiledMap(index, dtype, dims, strides, box, steps, *take(4))
            return
        dims, strides, lower, upper = take(4), take(3), take(2), take(2)
        (channels, pixels), steps = take(2), take(4)
        self.maps[variable] = Im2colMap(
            index, dtype, dims, strides, lower, upper, channels, pixels, steps, *take(1)
        )

    def _launch(self, call: Any) -> None:
        names = [str(name) for name in call.attrs.launch_params]
        extents: list[Any] = []
        operands = list(call.args[1:])
        flags = {"tirx.use_programtic_dependent_launch", "tirx.use_cooperative_launch"}
        for name in reversed(names):
            if name not in flags:
                extents.insert(0, int(operands.pop()))
        launch = dict(zip((name for name in names if name not in flags), extents, strict=True))
        self.launches.append(
            Launch(
                symbol=str(call.args[0].value),
                grid=_axes(launch, "blockIdx"),
                block=_axes(launch, "threadIdx"),
                cluster=_axes(launch, "clusterCtaIdx"),
                smem_bytes=launch.get("tirx.use_dyn_shared_memory", 0),
                arguments=tuple(self._argument(operand) for operand in operands),
                programmatic="tirx.use_programtic_dependent_launch" in names,
                cooperative="tirx.use_cooperative_launch" in names,
            )
        )

    def _argument(self, operand: Any) -> Argument:
        if isinstance(operand, tirx.IntImm | tirx.FloatImm):
            return Scalar(operand.value, str(operand.ty.dtype))
        if operand in self.maps:
            return self.maps[operand]
        return Buffer(self._index(operand))

    def _index(self, expression: Any) -> int:
        index = self._find_index(expression)
        if index is None:
            raise BuildError(f"kernel argument {expression} is not a parameter of the function")
        return index

    def _find_index(self, expression: Any) -> int | None:
        """Parameter that an address comes from, followed through its definitions."""
        if isinstance(expression, Buffer):
            return expression.index
        if expression in self.definitions:
            return self._find_index(self.definitions[expression])
        operands = getattr(expression, "args", None)
        if not operands:
            return None
        if expression.op.name == _TENSOR_HANDLE_FIELD and operands[0].same_as(self.args):
            return int(operands[1])
        return next(
            (found for item in operands if (found := self._find_index(item)) is not None), None
        )


def _axes(launch: dict[str, int], prefix: str) -> tuple[int, int, int]:
    x, y, z = (launch.get(f"{prefix}.{axis}", 1) for axis in "xyz")
    return (x, y, z)
