"""The innermost step of a register tile: what one vector instruction accumulates."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr

from autoq.templates.cpu.vector import cast, load, splat


@dataclass(frozen=True)
class Dot:
    """`accumulator[lane] += sum over depth of activation[depth] * weight[lane, depth]`.

    lanes: output channels of a vector; depth: reduction elements of a step. With `depthwise` each
    lane has an activation of its own, else all share one. fused: whether one instruction
    multiplies and adds to the accumulator. `signed_shift` is added to int8 activations to make
    them unsigned; `operand` is the dtype that activations and weights are widened to beforehand,
    empty where they stay as they are. `activation(buffer, start)` loads what one pixel
    contributes; `accumulate(accumulator, activation, weight)` is the step.
    """

    lanes: int
    depth: int
    accumulator: str
    depthwise: bool
    fused: bool
    signed_shift: int
    operand: str
    activation: Callable[[Buffer, Expr], Expr]
    accumulate: Callable[[Expr, Expr, Expr], Expr]

    @property
    def weight_lanes(self) -> int:
        """Weight elements of one vector."""
        return self.lanes * self.depth


@functools.cache
def vnni(in_dtype: str) -> Dot:
    """AVX512-VNNI `vpdpbusd`: 16 channels, 4 products each, u8 times s8 into int32.

    int8 activations are copied as `x xor 0x80`, which is x + 128 as uint8.
    """

    def activation(buffer: Buffer, start: Expr) -> Expr:
        word = T.reinterpret("int32", load(buffer, start, 4))
        return T.reinterpret("int8x64", splat(word, 16))

    def accumulate(accumulator: Expr, pixel: Expr, weight: Expr) -> Expr:
        return T.call_llvm_pure_intrin(
            "int32x16", "llvm.x86.avx512.vpdpbusd.512", accumulator, pixel, weight
        )

    shift = 128 if in_dtype == "int8" else 0
    return Dot(16, 4, "int32", False, True, shift, "", activation, accumulate)


_PAIR_PRODUCTS = {8: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.avx512.pmaddw.d.512"}


@functools.cache
def pairs(lanes: int) -> Dot:
    """`vpmaddwd` of AVX2 (8 lanes) or AVX512BW (16): 2 products a lane, of int16 into int32.

    Bytes are widened beforehand. `vpmaddubsw`, which takes bytes, adds its products in 16 bits,
    where two of uint8 by int8 overflow.
    """

    def activation(buffer: Buffer, start: Expr) -> Expr:
        word = T.reinterpret("int32", load(buffer, start, 2))
        return T.reinterpret(f"int16x{2 * lanes}", splat(word, lanes))

    def accumulate(total: Expr, pixel: Expr, weight: Expr) -> Expr:
        products = T.call_llvm_pure_intrin(f"int32x{lanes}", _PAIR_PRODUCTS[lanes], pixel, weight)
        return total + products

    return Dot(lanes, 2, "int32", False, False, 0, "int16", activation, accumulate)


@functools.cache
def multiply_add(in_dtype: str, depthwise: bool, lanes: int) -> Dot:
    """One product a lane on any CPU: float32 fma, or int8 widened to int32.

    LLVM multiplies widened bytes by `vpmaddwd` or its like where the CPU has one.
    """
    accumulator = "float32" if in_dtype == "float32" else "int32"

    def activation(buffer: Buffer, start: Expr) -> Expr:
        if depthwise:
            return cast(load(buffer, start, lanes), accumulator, lanes)
        return splat(cast(buffer[start], accumulator, 1), lanes)

    def accumulate(total: Expr, pixel: Expr, weight: Expr) -> Expr:
        return total + pixel * cast(weight, accumulator, lanes)

    fused = in_dtype == "float32"
    return Dot(lanes, 1, accumulator, depthwise, fused, 0, "", activation, accumulate)
