"""CUDA source that the epilogues of two fragment rows of a thread have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autoq.templates.arrays.element import element
from autoq.templates.arrays.storage import moved_as
from autoq.templates.cuda.device.functions import DeviceFunction, device_function
from autoq.templates.cuda.device.memory.word_vectors import VECTORS, gather
from autoq.templates.epilogue import Epilogue
from autoq.templates.epilogue.cuda.values.lookup_source import table_parameter
from autoq.templates.epilogue.cuda.values.requantisation import SHORT, Requantisation

_ANY = (
    "const void* scale, const int* bias0, const int* bias1, const void* scalars",
    "  const float4 first = __ldg(reinterpret_cast<const float4*>(scalars));",
    "  const float4 second = __ldg(reinterpret_cast<const float4*>(scalars) + 1);",
)
_THIRD = "  const float4 third = __ldg(reinterpret_cast<const float4*>(scalars) + 2);"
_SHORT = (
    "const void* scale, const float* limits, float residual_zero_point",
    "  const float4 second = make_float4(residual_zero_point, 0.f, 0.f, 0.f);",
)


def rows_function(
    requantisation: Requantisation, words: int, body: Sequence[str], source: str = ""
) -> DeviceFunction:
    """rows(acc, scale, bias0, bias1, scalars, words0, words1, y0, y1, ok0, ok1, left).

    In a short form rows(acc, scale, limits, residual zero point, words0, ...). The two rows'
    scales, or x_scale and x_zero_point of a dynamic epilogue, come behind, and last the table,
    where the epilogue has them. words: registers out0 and out1 of each row, which the body fills
    and stores; source: of what the body calls beside the requantisation.
    """
    epilogue = requantisation.epilogue
    out = element(moved_as(epilogue.out_dtype)).c_type
    rows = ", float row0, float row1" if epilogue.row_scale else ""
    if epilogue.dynamic:
        rows = ", float x_scale, float x_zero_point"
    operands, *constants = _SHORT if requantisation.form in SHORT else _ANY
    if epilogue.factor:
        constants.append(_THIRD)
    lines = [
        "__device__ __forceinline__ void requantise_rows_@(const unsigned* acc,",
        f"    {operands},",
        f"    const unsigned* words0, const unsigned* words1, {out}* y0, {out}* y1,",
        f"    int ok0, int ok1, int left{rows}{table_parameter(epilogue)}) {{",
        *constants,
        f"  unsigned out0[{words}], out1[{words}];",
    ]
    text = requantisation.source() + source + "\n".join([*lines, *body, "}\n"])
    return device_function("requantise_rows", text)


def row_outputs(
    requantisation: Requantisation,
    row: int,
    quad: int,
    totals: Sequence[str],
    scales: Sequence[str],
    first: int | None = None,
) -> list[str]:
    """Statements that put channels 4 * quad to 4 * quad + 3 of a row into its registers.

    first: the register of the first of them, where rows do not lie there as a whole.
    """
    before, addends = requantisation.addends(f"words{row}", 4 * quad, f"r{row}_{quad}")
    found = requantisation.outputs(totals, scales, addends)
    first = len(found) * quad if first is None else first
    return before + [f"  out{row}[{first + i}] = {word};" for i, word in enumerate(found)]


def residual_words(epilogue: Epilogue, channels: int) -> int:
    """Registers that hold the residual of so many channels of a row."""
    dtype = epilogue.residual_dtype
    return 0 if dtype is None else -(-channels // element(dtype).per_word)


def row_head(name: str, epilogue: Epilogue) -> str:
    """The first line of a function that loads one row's residual into words."""
    c_type = element(moved_as(epilogue.residual_dtype or "int8")).c_type
    return (
        f"__device__ __forceinline__ void {name}_@(unsigned* words, const {c_type}* residual, "
        "int ok, int left) {"
    )


def row_stores(row: int, accesses: Iterable[tuple[int, int, int, int]], tail: bool) -> list[str]:
    """Statements that store a row's registers.

    accesses: byte offset, bytes, first channel and offset of the row's pointer of each; tail:
    whether a row may end before the last of them.
    """
    lines = []
    for offset, width, channel, place in accesses:
        guard = f"ok{row} && {channel} < left" if tail else f"ok{row}"
        value = gather(width, offset, f"out{row}")
        lines.append(
            f"  if ({guard}) *reinterpret_cast<{VECTORS[width]}*>(y{row} + {place}) = {value};"
        )
    return lines
