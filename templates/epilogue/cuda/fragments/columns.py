"""CUDA source of the epilogue of a thread's columns: two neighbouring channels of two columns.

A kernel holds the code of three forms and chooses by the bounds: `Form.PACK`, `SHIFT`, `CLAMP`.
"""

from __future__ import annotations

from dataclasses import dataclass

from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.cuda.device.functions import DeviceFunction, device_function
from autoq.templates.epilogue import Epilogue
from autoq.templates.epilogue.cuda.values.lookup_source import table_parameter
from autoq.templates.epilogue.cuda.values.requantisation import Form, Requantisation

# state: [0] zero point - 1.5 * 2**23, [1] low, [2] high, [3] the form; then scale and bias
# of a block's two channels.
_PREPARE = r"""
__device__ __forceinline__ void prepare_scalars_@(unsigned* state, const void* scalars) {
  const float4 second = __ldg(reinterpret_cast<const float4*>(scalars) + 1);
  const float low = second.y, high = second.z, zero_point = second.w;
  const bool own = __fadd_rn(low, zero_point) == LEAST && __fadd_rn(high, zero_point) == MOST;
  state[0] = __float_as_uint(__fadd_rn(zero_point, -12582912.f));
  state[1] = __float_as_uint(low);
  state[2] = __float_as_uint(high);
  state[3] = own ? (zero_point == 0.f ? PACK : SHIFT) : CLAMP;
}
"""
_CHANNELS = r"""
__device__ __forceinline__ void prepare_channels_@(unsigned* state, const void* scale,
                                                   const int* bias) {
  const uint2 factors = __ldg(reinterpret_cast<const uint2*>(scale));
  const int2 addends = __ldg(reinterpret_cast<const int2*>(bias));
  state[0] = factors.x;
  state[1] = factors.y;
  state[2] = addends.x;
  state[3] = addends.y;
}
"""
# a, b: columns 2t and 2t + 1 of the lower channel; c, d: of the upper one.
_COLUMNS = r"""
__device__ __forceinline__ unsigned requantise_columns_@(
    unsigned a, unsigned b, unsigned c, unsigned d, const unsigned* first,
    const unsigned* channels, const int* table, int left, int rightLAST) {
  int2 in_left = make_int2(channels[2], channels[3]), in_right = in_left;
  if (TABLE) {
    in_left = __ldg(reinterpret_cast<const int2*>(table + left));
    in_right = __ldg(reinterpret_cast<const int2*>(table + right));
  }
  const float shift = __uint_as_float(first[0]);
  const float low = __uint_as_float(first[1]), high = __uint_as_float(first[2]);
  const float lower = __uint_as_float(channels[0]), upper = __uint_as_float(channels[1]);
  return OUTPUTS;
}
"""
_TOTALS = ("(int)a + in_left.x", "(int)c + in_left.y", "(int)b + in_right.x", "(int)d + in_right.y")
_SCALES = ("lower", "upper") * 2
FORMS = (Form.PACK, Form.SHIFT, Form.CLAMP)


@dataclass(frozen=True)
class ColumnFunctions:
    """The helpers of one kernel, `requantise` by form.

    prepare_scalars(state, scalars); prepare_channels(state of a block, scale, bias);
    requantise(a, b, c, d, state, state of the block, bias table, left, right): two channels of two
    columns in a word; left and right: where the table has the columns' biases. A table of
    outputs comes last.
    """

    prepare_scalars: DeviceFunction
    prepare_channels: DeviceFunction
    requantise: tuple[DeviceFunction, ...]


def column_functions(epilogue: Epilogue, table: bool) -> ColumnFunctions:
    """Helpers of a kernel with int8 or uint8 outputs.

    table: every column has a bias of its own, by its border class.
    """
    least, most = INTEGER_RANGE[epilogue.out_dtype]
    numbers = {form.name: str(form.value) for form in FORMS}
    numbers |= {"LEAST": f"{least}.f", "MOST": f"{most}.f"}
    prepare = _PREPARE
    for word, number in numbers.items():
        prepare = prepare.replace(word, number)

    def columns(form: Form) -> DeviceFunction:
        requantisation = Requantisation(epilogue, form)
        (word,) = requantisation.outputs(_TOTALS, _SCALES, requantisation.addends("", 0, "")[1])
        source = _COLUMNS.replace("LAST", table_parameter(epilogue)).replace("OUTPUTS", word)
        source = source.replace("TABLE", str(int(table)))
        return device_function("requantise_columns", requantisation.source() + source)

    return ColumnFunctions(
        device_function("prepare_scalars", prepare),
        device_function("prepare_channels", _CHANNELS),
        tuple(map(columns, FORMS)),
    )
