"""Float32 images to integers: a thread gathers the channels of one output pixel and stores them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.arrays.storage import is_four_bit
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.launch.thread_kernel import (
    ThreadConfig,
    call,
    indexable,
    items_kernel,
    scalars_parameter,
    scalars_template,
)
from autoq.templates.epilogue.cuda.values.numbers import NumberNamespace
from autoq.templates.operators.quantize import Quantize
from autoq.templates.target import Target

# The true division is what QuantizeLinear demands; a product with 1 / scale rounds differently. It
# branches, so all loads come first.
_SOURCE = r"""
__device__ __forceinline__ void quantise_pixel(
    const float* x, const float* scalars, To<OUT> y, int image, int i, int j, int group) {
  const float scale = __ldg(scalars);
  float value[V];
  if constexpr (!NCHW && BLOCK == 1 && C % 4 == 0 && V % 4 == 0) {
    #pragma unroll
    for (int e = 0; e < V; e += 4) {
      const int channel = group * V + e;
      Raw<float, 4> raw = {};
      if (channel < C) raw = load<float, 4>(x + ((image * H + i) * W + j) * C + channel);
      #pragma unroll
      for (int f = 0; f < 4; ++f) value[e + f] = __uint_as_float(raw.word[f]);
    }
  } else if constexpr (NCHW && PLANES && BLOCK % 4 == 0 && V % 4 == 0) {
    #pragma unroll
    for (int e = 0; e < V; e += 4) {  // four pixels of a row of a plane
      const int out = group * V + e, channel = out / (BLOCK * BLOCK);
      const int row = i * BLOCK + out / BLOCK % BLOCK, column = j * BLOCK + out % BLOCK;
      Raw<float, 4> raw = {};
      if (channel < C) raw = load<float, 4>(x + ((image * C + channel) * H + row) * W + column);
      #pragma unroll
      for (int f = 0; f < 4; ++f) value[e + f] = __uint_as_float(raw.word[f]);
    }
  } else {
    #pragma unroll
    for (int e = 0; e < V; ++e) {
      const int out = group * V + e;
      const int tap = PLANES ? out % (BLOCK * BLOCK) : out / C;
      const int channel = PLANES ? out / (BLOCK * BLOCK) : out % C;
      const int row = i * BLOCK + tap / BLOCK, column = j * BLOCK + tap % BLOCK;
      const int at = NCHW ? ((image * C + channel) * H + row) * W + column
                          : ((image * H + row) * W + column) * C + channel;
      value[e] = out < BLOCK * BLOCK * C ? __ldg(x + at) : 0.f;
    }
  }
  #pragma unroll
  for (int e = 0; e < V; ++e) {
    if (group * V + e < BLOCK * BLOCK * C) value[e] = __fdiv_rn(value[e], scale);
  }
  const int at = ((image * (H / BLOCK) + i) * (W / BLOCK) + j) * PITCH + group * V;
  Raw<OUT, V> raw = quantise<OUT, V>(value, __ldg(scalars + 1), __ldg(scalars + 2),
                                     __ldg(scalars + 3));
  if constexpr (CHANNELS < PITCH) {
    if ((group + 1) * V == PITCH) raw.word[(V - 1) / 8] &= ~(15u << (4 * ((V - 1) % 8)));
  }
  store<OUT, V>(y + at, raw);
}
"""


def matches(workload: object, target: Target) -> bool:
    """Any image whose blocks are whole and whose channels fit."""
    return (
        isinstance(workload, Quantize)
        and target.kind == "cuda"
        and workload.out_dtype in INTEGER_RANGE
        and workload.h % workload.block == 0
        and workload.w % workload.block == 0
        and workload.channels >= workload.block**2 * workload.c
        and indexable(workload.x_shape, workload.y_shape)
    )


def build(workload: Quantize, config: ThreadConfig, target: Target) -> PrimFunc:
    """The quantisation kernel; parameters x, scalars, y.

    The bounds of `scalars` hold 0, as those of a representable zero point do.
    """
    _, rows, columns, channels = workload.y_shape
    pitch = _pitch(workload)
    values = _values(workload)
    groups = pitch // values
    # A thread's reads of one plane lie beside its neighbours' when columns run fastest; NHWC
    # reads do when channels run fastest. Where a block's row in a plane is a sector of 32 bytes,
    # reads need no neighbours and writes have them when channels run fastest.
    nchw = workload.layout == "NCHW"
    planar = nchw and not (workload.planes and workload.block % 8 == 0)
    items = workload.n * rows * columns * groups
    namespace = NumberNamespace(
        "quantize",
        _SOURCE,
        {"OUT": workload.out_dtype},
        {
            "H": workload.h,
            "W": workload.w,
            "C": workload.c,
            "BLOCK": workload.block,
            "NCHW": nchw,
            "PLANES": workload.planes,
            "CHANNELS": channels,
            "PITCH": pitch,
            "V": values,
        },
    )
    parameters = [
        TensorSpec("x", workload.x_shape, "float32"),
        scalars_parameter(workload),
        TensorSpec("y", workload.y_shape, workload.out_dtype),
    ]

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        item = block * config.threads + thread
        if planar:
            column, group, row = item % columns, item // columns % groups, item // columns // groups
        else:
            group, column, row = item % groups, item // groups % columns, item // groups // columns
        with builder.If(item < items), builder.Then():
            place = (row // rows, row % rows, column, group)
            call(namespace.function("quantise_pixel"), *pointers, *place)

    return items_kernel(parameters, items, config.threads, target, body)


def _values(workload: Quantize) -> int:
    """Output channels of one thread."""
    quads = math.gcd(workload.c, workload.channels) % 4 == 0
    if workload.layout == "NHWC" and workload.block == 1 and quads:
        return 4
    pitch = _pitch(workload)
    return pitch if pitch <= 16 else math.gcd(pitch, 16)


def _pitch(workload: Quantize) -> int:
    """Values from one output pixel to the next: 4-bit ones end with a byte."""
    return workload.channels + (workload.channels % 2 if is_four_bit(workload.out_dtype) else 0)


TEMPLATE = scalars_template("quantize_cuda", 1, matches, build)
"""Quantised inputs, with channel padding and space-to-depth, on every CUDA target."""
