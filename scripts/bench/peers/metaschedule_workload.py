"""The layer as TVM's MetaSchedule takes it: int8 convolution and requantisation as one PrimFunc."""

from __future__ import annotations

import tvm
from tvm import te, tirx, topi

from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import Target


def convolution(workload: Conv2d) -> tirx.PrimFunc:
    """y = saturate(round(conv(x, weight) * scale [+ residual])).

    Parameters are x int8 [n, h, w, c], weight int8 [k, r, s, c], scale float32 [k], the residual
    int8 [n, p, q, k] where there is one, and y int8 [n, p, q, k].
    """
    x = te.placeholder(workload.x_shape, "int8", name="x")
    weight = te.placeholder(workload.weight_shape, "int8", name="weight")
    scale = te.placeholder((workload.k,), "float32", name="scale")
    sum_ = _accumulator(workload, x, weight)
    residual = (
        te.placeholder(workload.y_shape, "int8", name="residual")
        if workload.epilogue.residual_dtype
        else None
    )

    def requantise(*at: tirx.Var) -> tirx.PrimExpr:
        value = sum_(*at).astype("float32") * scale(at[-1])
        if residual is not None:
            value = value + residual(*at).astype("float32")
        low, high = (tirx.const(bound, "float32") for bound in (-128.0, 127.0))
        return te.max(te.min(te.nearbyint(value), high), low).astype("int8")

    y = te.compute(workload.y_shape, requantise, name="y")
    inputs = [x, weight, scale] if residual is None else [x, weight, scale, residual]
    return te.create_prim_func([*inputs, y])


def _accumulator(workload: Conv2d, x: te.Tensor, weight: te.Tensor) -> te.Tensor:
    top, left, bottom, right = workload.padding
    padded = x
    if any(workload.padding):
        padded = topi.nn.pad(x, [0, top, left, 0], [0, bottom, right, 0], name="padded")
    row = te.reduce_axis((0, workload.r), name="row")
    column = te.reduce_axis((0, workload.s), name="column")
    channel = te.reduce_axis((0, workload.c), name="channel")
    (stride_h, stride_w), (dilation_h, dilation_w) = workload.stride, workload.dilation

    def product(n: tirx.Var, p: tirx.Var, q: tirx.Var, k: tirx.Var) -> tirx.PrimExpr:
        pixel = padded(
            n, p * stride_h + row * dilation_h, q * stride_w + column * dilation_w, channel
        )
        tap = weight(k, row, column, channel)
        return te.sum(pixel.astype("int32") * tap.astype("int32"), axis=[row, column, channel])

    return te.compute(workload.y_shape, product, name="conv")


def tuning_target(target: Target) -> tvm.target.Target:
    """TVM's target with the limits that MetaSchedule's postprocessors check."""
    return tvm.target.Target(
        {
            "kind": "cuda",
            "arch": target.arch,
            "max_shared_memory_per_block": target.smem_bytes,
            "max_threads_per_block": 1024,
            "thread_warp_size": 32,
            "registers_per_block": 65536,
        }
    )
