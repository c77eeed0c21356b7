"""CUDA source that finishes and stores two neighbouring channels of two columns of a thread.

Columns are rows of the output: a warp's 16 channels of one lie together, whole sectors of 32 bytes
where an output has two or more.
"""

from __future__ import annotations

from dataclasses import dataclass

from autoq.templates.arrays.element import element
from autoq.templates.cuda.device.functions import DeviceFunction, device_function
from autoq.templates.cuda.device.memory.word_vectors import VECTORS, gather, scatter
from autoq.templates.epilogue import Epilogue
from autoq.templates.epilogue.cuda.values.elements import value_factors
from autoq.templates.epilogue.cuda.values.lookup_source import table_parameter
from autoq.templates.epilogue.cuda.values.requantisation import Requantisation

STATE_WORDS = 6
"""Registers of a block's two channels: scales, biases, float biases."""

# a, b: columns 2t and 2t + 1 of the lower channel; c, d: of the upper one.
_TOTALS = ("(int)(a + lower)", "(int)(c + upper)", "(int)(b + lower)", "(int)(d + upper)")
_HEAD = r"""
__device__ __forceinline__ void store_pairs_@(
    unsigned a, unsigned b, unsigned c, unsigned d, const unsigned* channels, const void* scalars,
    const void* residual0, const void* residual1, void* y0, void* y1, int ok0, int ok1ROWS) {
  const unsigned lower = channels[2], upper = channels[3];
"""
_SCALARS = r"""
  const float4 first = __ldg(reinterpret_cast<const float4*>(scalars));
  const float4 second = __ldg(reinterpret_cast<const float4*>(scalars) + 1);
"""
_PREPARE = r"""
__device__ __forceinline__ void prepare_pair_@(unsigned* state, const void* scale,
                                               const int* bias) {
  const int2 addends = __ldg(reinterpret_cast<const int2*>(bias));
  state[2] = addends.x;
  state[3] = addends.y;
  if (SCALED) {
    const uint2 factors = __ldg(reinterpret_cast<const uint2*>(scale));
    state[0] = factors.x;
    state[1] = factors.y;
  }
  if (SHIFTED) {
    const uint2 shifts = __ldg(reinterpret_cast<const uint2*>(scale) + CHANNELS / 2);
    state[4] = shifts.x;
    state[5] = shifts.y;
  }
}
"""


@dataclass(frozen=True)
class PairFunctions:
    """The helpers of one kernel.

    prepare(state of a block, scale, bias): a thread's two channels, `STATE_WORDS` registers.
    store(a, b, c, d, state, scalars, residual0, residual1, y0, y1, ok0, ok1): two channels of two
    columns, of those that are ok. Scales of both columns come behind, and last a table of outputs,
    where the epilogue has them.
    """

    prepare: DeviceFunction
    store: DeviceFunction


def pair_functions(epilogue: Epilogue, channels: int) -> PairFunctions:
    """Helpers of any epilogue but groups of scales and 4 bits; channels: padded, a multiple of 2.

    Outputs of int32 read neither scale nor scalars: any pointer will do.
    """
    numbers = {"SCALED": int(epilogue.out_dtype != "int32"), "SHIFTED": int(epilogue.float_bias)}
    prepare = _PREPARE.replace("CHANNELS", str(channels))
    for word, number in numbers.items():
        prepare = prepare.replace(word, str(number))
    requantisation = Requantisation(epilogue)
    text = requantisation.source() + _head(epilogue) + "\n".join(_body(requantisation)) + "\n}\n"
    return PairFunctions(
        device_function("prepare_pair", prepare), device_function("store_pairs", text)
    )


def _head(epilogue: Epilogue) -> str:
    rows = ", float row0, float row1" if epilogue.row_scale else ""
    head = _HEAD.replace("ROWS", rows + table_parameter(epilogue))
    return head if epilogue.out_dtype == "int32" else head + _SCALARS


def _body(requantisation: Requantisation) -> list[str]:
    """Statements: residuals of both columns, four outputs, and their stores."""
    epilogue = requantisation.epilogue
    lines = []
    if epilogue.residual_dtype is not None:
        pair = 2 * element(epilogue.residual_dtype).bytes
        lines.append(f"  unsigned words[{max(2 * pair // 4, 1)}];")
        for row in range(2):
            vector = VECTORS[pair]
            lines.append(f"  {{ {vector} v = {{}};")
            lines.append(
                f"  if (ok{row}) v = __ldg(reinterpret_cast<const {vector}*>(residual{row}));"
            )
            lines += [f"  {text}" for text in (*scatter(pair, row * pair), "}")]
    scales = [
        value_factors(
            epilogue, f"__uint_as_float(channels[{upper}])", f"row{row}",
            f"__uint_as_float(channels[{4 + upper}])",
        )
        for row in range(2)
        for upper in range(2)
    ]  # fmt: skip
    before, addends = requantisation.addends("words", 0, "r")
    found = requantisation.outputs(_TOTALS, scales, addends)
    lines += [*before, f"  unsigned out[{len(found)}];"]
    lines += [f"  out[{i}] = {word};" for i, word in enumerate(found)]
    pair = 2 * element(epilogue.out_dtype).bytes
    for row in range(2):
        value = gather(pair, row * pair, "out")
        lines.append(f"  if (ok{row}) *reinterpret_cast<{VECTORS[pair]}*>(y{row}) = {value};")
    return lines
