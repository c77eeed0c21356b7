"""CUDA source of the epilogue of a thread's few neighbouring channels: `thread_epilogue.py`."""

from __future__ import annotations

from autoq.templates.epilogue import Epilogue
from autoq.templates.epilogue.cuda.parameters.scalars import TABLE_BYTE
from autoq.templates.epilogue.cuda.thread.short_source import (
    SHORT_FIELDS,
    SHORT_FORMS,
    SHORT_START,
    short_outputs,
    short_source,
)
from autoq.templates.epilogue.cuda.values.activations import activation_source
from autoq.templates.epilogue.cuda.values.elements import (
    SCALED,
    SHIFTED,
    addend_source,
    narrowing_source,
    rescaled_source,
    saturated_source,
    value_factors,
)
from autoq.templates.epilogue.cuda.values.lookup_source import LOOK_UP_VECTOR
from autoq.templates.epilogue.cuda.values.requantisation import Form

_SOURCE = r"""
struct Constants {
  const ADDEND* residual; const float* row_scale;
  const ACC* bias; const float* scale; const float* scalars;
};
// A float32 residual may be NaN, which only a clamp makes the least value.
constexpr bool SATURATES = V == 4 && BITS<OUT> == 8 && BITS<ADDEND> < 32;
enum class Form { FORMS };
struct Channels { Raw<float, V> scale; float4 first, second; Form form;FIELDS };
// What all channels share.
__device__ __forceinline__ Channels shared_terms(const Constants& from) {
  Channels own = {};
  if constexpr (!WIDE) {
    own.first = __ldg(reinterpret_cast<const float4*>(from.scalars));
    own.second = __ldg(reinterpret_cast<const float4*>(from.scalars) + 1);
    const float low = own.second.y, high = own.second.z, zero_point = own.second.w;
    const bool whole =
        __fadd_rn(low, zero_point) == LEAST && __fadd_rn(high, zero_point) == MOST;
    own.form = !SATURATES ? Form::ANY
               : !whole   ? Form::CLAMP
               : zero_point == 0.f ? Form::PACK : Form::SHIFT;TABLE_STARTSHORT_START
  }
  return own;
}
__device__ __forceinline__ Channels channels(const Constants& from, int k) {
  Channels own = shared_terms(from);
  if constexpr (!WIDE) {
    if constexpr (!FLOATING) own.scale = load<float, V>(from.scale + k);SHIFT_START
  }
  return own;
}
template <Form FORM> __device__ __forceinline__ float placed(float value, const float4& second) {
  if constexpr (FORM == Form::CLAMP) value = clamped(value, second.y, second.z);
  if constexpr (FORM == Form::PACK) return value;
  return element::shifted(value, __fadd_rn(second.w, -12582912.f));
}
__device__ __forceinline__ Raw<OUT, V> finished(float (&value)[V], const float4& second) {
  FINISH
}
template <Form FORM> __device__ __forceinline__ Raw<OUT, V> outputs(
    const ACC* acc, const Raw<ACC, V>& bias, const Raw<ADDEND, V>& addends, const Channels& own) {
  if constexpr (WIDE) {
    Raw<OUT, V> out;
    #pragma unroll
    for (int i = 0; i < V; ++i) out.word[i] = (unsigned)acc[i] + bias.word[i];
    return out;
  }SHORT_OUTPUTS else {
    float value[V];
    #pragma unroll
    for (int i = 0; i < V; ++i) {
      float addend = 0.f;
      if constexpr (RESIDUAL) addend = NUMBER;
      if constexpr (FLOATING) {
        value[i] = __fadd_rn(acc[i], __uint_as_float(bias.word[i]));
        if constexpr (RESIDUAL) value[i] = __fadd_rn(value[i], __fmul_rn(addend, own.first.w));
      } else {
        const int total = (int)acc[i] + (int)bias.word[i];
        const float scale = __uint_as_float(own.scale.word[i]);
        value[i] = element::rescaled(total, FACTORS, addend, own.first, own.second);
      }
    }
    if constexpr (SATURATES && FORM != Form::ANY) {
      #pragma unroll
      for (int i = 0; i < V; ++i) value[i] = placed<FORM>(value[i], own.second);
      return TABLE_OF{element::converted4(value[0], value[1], value[2], value[3])}TABLE_END;
    } else {
      return TABLE_OFfinished(value, own.second)TABLE_END;
    }
  }
}
__device__ __forceinline__ void store_outputs(
    const ACC* acc, const Constants& from, OUT* y, int bias_at, int k, int at) {
  const Raw<ACC, V> bias = load<ACC, V>(from.bias + bias_at + k);
  Raw<ADDEND, V> addends = {};
  if constexpr (RESIDUAL) addends = load<ADDEND, V>(from.residual + at);
  Channels own = channels(from, k);ROW_START
  store<OUT, V>(y + at, outputs<Form::ANY>(acc, bias, addends, own));
}
"""

# Values as outputs, by what these are.
_CURVED = """
  #pragma unroll
  for (int i = 0; i < V; ++i) value[i] = element::activated(value[i]);"""
_QUANTISED = "return quantise<OUT, V>(value, second.y, second.z, second.w);"
_NARROWED = """
  float v[V + 1];
  v[V] = 0.f;
  #pragma unroll
  for (int i = 0; i < V; ++i) {
    v[i] = value[i] != value[i] ? value[i] : clamped(value[i], second.y, second.z);
  }
  Raw<OUT, V> out;
  #pragma unroll
  for (int i = 0; i < V; i += 2) out.word[i / 2] = element::floats2(v[i], v[i + 1]);
  return out;"""
_FORMS = (Form.PACK, Form.SHIFT, Form.CLAMP, Form.ANY)
_TABLE = f"""
    own.table = reinterpret_cast<const unsigned char*>(from.scalars) + {TABLE_BYTE};"""
_SHIFT = """
    own.shift = load<float, V>(from.scale + CHANNELS + k);"""
_ROW = """
  own.row = __ldg(from.row_scale + at / IMAGE);"""


def thread_source(
    epilogue: Epilogue, channels: int, scaled: bool = False, short: bool = False
) -> str:
    """Source of `channels`, `outputs` and `store_outputs` for so many output channels.

    scaled: accumulators are the bits of floats that are scaled already; short: operands may allow a
    short form. Its types and constants are those of `ThreadEpilogue.namespace`.
    """
    number = "number<ADDEND, V>(addends, i, zero<ADDEND>(own.second.x))"
    if epilogue.residual_dtype in ("float16", "bfloat16"):
        number = "element::addend(addends.word[i / 2], i % 2, own.second)"
    fields = {
        " const unsigned char* table;": epilogue.table,
        " float row;": epilogue.row_scale,
        " Raw<float, V> shift;": epilogue.float_bias,
        SHORT_FIELDS: short,
    }
    table = epilogue.table
    words = {
        "FIELDS": "".join(text for text, there in fields.items() if there),
        "TABLE_START": _TABLE if table else "",
        "SHORT_START": SHORT_START if short else "",
        "SHORT_OUTPUTS": short_outputs(epilogue) if short else "",
        "TABLE_OF": "looked_up(" if table else "",
        "TABLE_END": ", own.table)" if table else "",
        "SHIFT_START": _SHIFT.replace("CHANNELS", str(channels)) if epilogue.float_bias else "",
        "ROW_START": _ROW if epilogue.row_scale else "",
        "FACTORS": value_factors(
            epilogue, "scale", "own.row", "__uint_as_float(own.shift.word[i])"
        ),
        "NUMBER": number,
        "FINISH": _finish(epilogue),
        "FORMS": ", ".join(
            f"{form.name} = {form}" for form in (*_FORMS, *(SHORT_FORMS if short else ()))
        ),
    }
    source = (LOOK_UP_VECTOR if table else "") + _SOURCE
    for word, text in words.items():
        source = source.replace(word, text)
    forms = short_source(epilogue) if short else ""
    return f"namespace element {{\n{_elements(epilogue, scaled)}}}\n{forms}{source}"


def _elements(epilogue: Epilogue, scaled: bool) -> str:
    """Source of the namespace `element`."""
    packed = epilogue.out_dtype if epilogue.out_dtype in ("int8", "uint8") else "uint8"
    source = SCALED + SHIFTED + rescaled_source(epilogue, scaled) + saturated_source(packed)
    if epilogue.residual_dtype in ("float16", "bfloat16"):
        source += addend_source(epilogue.residual_dtype)
    if epilogue.out_dtype in ("float16", "bfloat16"):
        source += narrowing_source(epilogue.out_dtype)
    if epilogue.activation != "none":
        source += activation_source(epilogue.activation)
    return source.replace("_@", "")


def _finish(epilogue: Epilogue) -> str:
    """The body of `finished`."""
    curved = "" if epilogue.activation == "none" else _CURVED
    narrow = epilogue.out_dtype in ("float16", "bfloat16")
    return curved + (_NARROWED if narrow else _QUANTISED)
