"""The 2:4 sparse product on wgmma, a persistent kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tvm.script import tirx as T
from tvm.tirx import PrimFunc

from autoq.templates.arrays.element import element
from autoq.templates.arrays.storage import moved_as
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.launch.dependent_launch import (
    overlapping,
    start_successor,
    wait_for_predecessors,
)
from autoq.templates.cuda.device.memory.look_ahead import look_ahead
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.memory.ring_source import RING
from autoq.templates.cuda.device.memory.swizzle import swizzle_mode
from autoq.templates.cuda.device.memory.tma import ENCODE_TILED, row_values, tiled_map
from autoq.templates.cuda.pruned.two_four.config import ROW_BYTES, TwoFourTiling
from autoq.templates.cuda.pruned.two_four.finish_source import (
    FINISH,
    FINISH_TILE,
    SHIFTS,
    table_source,
)
from autoq.templates.cuda.pruned.two_four.pack import pack_terms, pack_weight, weight_spec
from autoq.templates.cuda.pruned.two_four.rows_source import BOXES, VECTORS
from autoq.templates.cuda.pruned.two_four.source import SOURCE
from autoq.templates.cuda.pruned.two_four.view import TwoFourProduct
from autoq.templates.epilogue.cuda.short_forms.choice import ShortForm
from autoq.templates.epilogue.cuda.short_forms.long_table import LONG_ENTRIES, packed_long_table
from autoq.templates.epilogue.cuda.thread.form_choice import form_choice
from autoq.templates.epilogue.cuda.thread.thread_epilogue import ThreadEpilogue
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_BITS_OF = r"""
__device__ __forceinline__ int bits_of(int v) { return v; }
__device__ __forceinline__ int bits_of(float v) { return __float_as_int(v); }
// What reads a sum stays behind this.
__device__ __forceinline__ void hold(int& v) { asm volatile("" : "+r"(v) : : "memory"); }
__device__ __forceinline__ void hold(float& v) { asm volatile("" : "+f"(v) : : "memory"); }
"""


def epilogue_of(tiling: TwoFourTiling) -> ThreadEpilogue:
    """The epilogue of a thread's two columns of two rows of y."""
    return tiling.view.thread_epilogue(tiling.terms)


def _namespace(tiling: TwoFourTiling, target: Target) -> DeviceNamespace:
    """The functions of `_entry`."""
    view, config, epilogue = tiling.view, tiling.config, epilogue_of(tiling)
    work = view.workload
    assembly = tiling.atom.assembly("product")
    half = "{}"
    if config.halved:
        assembly += tiling.half_atom.assembly("half_product")
        half = "half_product(to, a, x + step * 4, own.word[step][b], any || step > 0);"
    assembly = assembly.replace("unsigned* d", "int* d")
    shifts = SHIFTS if view.epilogue.float_bias else ""
    finish = FINISH_TILE.replace("STORE_ROWS", BOXES if config.boxed else VECTORS)
    choice = form_choice(view.epilogue, view.shortened, "own.form", FINISH)
    product = SOURCE.replace("FINISH_TILE", finish).replace("CHOICE", choice)
    table = table_source(view.epilogue.table, view.shortened)
    product = product.replace("TABLE_SOURCE", table).replace("HALF_PRODUCT", half)
    source = _BITS_OF + assembly + RING + product.replace("SHIFTS;", shifts + ";")
    for mark in (" ", "*"):
        source = source.replace("SUM" + mark, ("float" if view.floating else "int") + mark)
    return epilogue.namespace(
        "two_four",
        source + _entry(epilogue, config.boxed),
        {},
        {
            "M": work.m, "N": work.n, "SIZE": tiling.size, "COLUMNS": config.columns,
            "CONSUMERS": config.consumers, "BLOCKS": config.blocks, "STAGES": config.stages,
            "GROUP": config.group, "STAGE_BYTES": tiling.stage_bytes,
            "ROW_TILES": tiling.row_tiles, "CLUSTER": config.cluster,
            "CLUSTERS": tiling.clusters(target), "PASS": config.passing, "BOXED": config.boxed,
            "HALVED": config.halved,
            "PLACES": tiling.places, "K_STAGES": tiling.k_stages,
            "WEIGHT_TILES": tiling.weight_tiles, "ITEMS": tiling.items,
            "VECTOR_BYTES": tiling.vector_bytes,
            "CHANNELS": tiling.terms, "TABLE_BYTES": tiling.table_bytes,
            "PRODUCER_REGISTERS": tiling.budget.producer,
            "CONSUMER_REGISTERS": tiling.budget.consumer,
        },
    )  # fmt: skip


def _entry(epilogue: ThreadEpilogue, boxed: bool) -> str:
    """C++ of `begin` and `multiply`, whose parameters are the pointers that there are.

    boxed: y is a map.
    """
    constants = epilogue.constant_parameters()
    terms = [*epilogue.more_inputs(), *constants]
    y, outputs = ("unsigned long long y", "{y}") if boxed else ("void* y", "{(OUT*)y}")
    return (
        "__device__ __forceinline__ void begin(unsigned char* smem, unsigned long long x_map, "
        f"{_parameters(constants)}int thread) {{\n{_constants_from(constants)}"
        "  begin_two_four(smem, x_map, from, thread);\n}\n"
        "__device__ __forceinline__ void multiply(unsigned char* smem, unsigned long long x_map, "
        f"const void* weight, {_parameters(terms)}{y}, int block, int thread) {{\n"
        f"{_constants_from(terms)}"
        "  multiply_two_four(smem, x_map, (const unsigned char*)weight, "
        f"from, {outputs}, block, thread);\n}}\n"
    )


def _parameters(terms: Sequence[TensorSpec]) -> str:
    return "".join(f"const void* {spec.name}, " for spec in terms)


def _constants_from(terms: Sequence[TensorSpec]) -> str:
    """Statements that put such parameters into `from`."""
    fields = " ".join(
        f"from.{spec.name} = (const {element(moved_as(spec.dtype)).c_type}*){spec.name};"
        for spec in terms
    )
    return f"  Constants from = {{}};\n  {fields}\n"


def build_kernel(tiling: TwoFourTiling, target: Target, ahead: int = 0) -> PrimFunc:
    """The kernel; parameters x, the residual if there is one, those of `packed_all`, y.

    ahead: as in `Template.program`.
    """
    work, config = tiling.view.workload, tiling.config
    (x, *added), (y,) = work.inputs, work.outputs
    residual = added[0] if added else y
    weight, bias, *others = packed_all(tiling)
    functions = _namespace(tiling, target)
    begin, multiply = functions.function("begin"), functions.function("multiply")
    box = [row_values(x.dtype, ROW_BYTES), config.columns // config.cluster]
    x_arguments = tiled_map(x.dtype, [work.k, work.m], [work.k], box, swizzle_mode(ROW_BYTES))
    y_mode = swizzle_mode(64 * tiling.view.out_bytes) if config.boxed else 0
    y_arguments = tiled_map(y.dtype, [work.n, work.m], [work.n], [64, config.passing], y_mode)
    scale_shape, scalars_shape = (spec.shape for spec in others) if others else ((1,), (1,))
    clusters, threads, smem_bytes = tiling.clusters(target), tiling.threads, tiling.smem_bytes
    behind = look_ahead(math.prod(weight.shape), ahead, clusters * config.cluster)

    @T.jit
    def main(
        x_ptr: T.handle, residual_ptr: T.Optional(T.handle), weight_ptr: T.handle,
        bias_ptr: T.handle,
        scale_ptr: T.Optional(T.handle), scalars_ptr: T.Optional(T.handle), y_ptr: T.handle,
    ):  # fmt: skip
        x_array = T.match_buffer(x_ptr, x.shape, x.dtype, align=16)
        weights = T.match_buffer(weight_ptr, weight.shape, weight.dtype, align=16)
        biases = T.match_buffer(bias_ptr, bias.shape, bias.dtype, align=16)
        if residual_ptr is not None:
            addends = T.match_buffer(residual_ptr, residual.shape, residual.dtype, align=16)
            others_of_rows = T.meta_var([addends.data])
        else:
            others_of_rows = T.meta_var([])
        if scale_ptr is not None:
            scales = T.match_buffer(scale_ptr, scale_shape, "float32", align=16)
            scalars = T.match_buffer(scalars_ptr, scalars_shape, "float32", align=16)
            terms = T.meta_var([biases.data, scales.data, scalars.data])
        else:
            terms = T.meta_var([biases.data])
        y_array = T.match_buffer(y_ptr, y.shape, y.dtype, align=16)
        x_map: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
        T.call_packed(ENCODE_TILED, x_map, x.dtype, 2, x_array.data, *x_arguments)
        if config.boxed:
            y_map: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
            T.call_packed(ENCODE_TILED, y_map, y.dtype, 2, y_array.data, *y_arguments)
            outputs = T.meta_var(T.address_of(y_map))
        else:
            outputs = T.meta_var(y_array.data)
        T.device_entry()
        # Without a bound ptxas does not know the registers at launch and ignores setmaxnreg.
        T.attr({"tirx.launch_bounds_min_blocks_per_sm": 1})
        if config.cluster > 1:
            rank = T.cta_id_in_cluster([config.cluster])
            block = T.meta_var(T.cluster_id([clusters]) * config.cluster + rank)
        else:
            block = T.cta_id([clusters])
        thread = T.thread_id([threads])
        smem = T.alloc_buffer((smem_bytes,), "uint8", scope="shared.dyn", align=1024)
        if ahead > 0:  # noqa: SIM102 - by a thread that initialises no barriers
            if thread == 32:
                T.evaluate(
                    T.cuda.func_call(behind.name, weights.data, block, source_code=behind.source)
                )
        T.evaluate(
            T.cuda.func_call(
                begin.name, smem.data, T.address_of(x_map), *terms, thread,
                source_code=begin.source,
            )
        )  # fmt: skip
        wait_for_predecessors()
        start_successor()
        T.evaluate(
            T.cuda.func_call(
                multiply.name, smem.data, T.address_of(x_map), weights.data, *others_of_rows,
                *terms, outputs, block, thread, source_code=multiply.source,
            )
        )  # fmt: skip

    absent = {} if others else {"scale_ptr": None, "scalars_ptr": None}
    absent |= {} if added else {"residual_ptr": None}
    return overlapping(main.specialize(**absent))


def _long_table(view: TwoFourProduct, terms: Constants, found: ShortForm) -> list[np.ndarray]:
    """The table that the short form selects entries of, as float32, where there is one."""
    if not (view.shortened and view.epilogue.table):
        return []
    first, others = packed_long_table(view.epilogue, terms, found.read)
    own = np.zeros(LONG_ENTRIES // 4 - first.size // 4, np.float32)
    return [first.view(np.float32), others if found.read else own]


def packed_all(tiling: TwoFourTiling) -> tuple[TensorSpec, ...]:
    """The arrays of `pack_all`."""
    return (weight_spec(tiling), *epilogue_of(tiling).constant_parameters())


def pack_all(tiling: TwoFourTiling, constants: Constants) -> tuple[np.ndarray, ...]:
    """The weight, and what the epilogue reads of whole tiles."""
    view, specs = tiling.view, epilogue_of(tiling).constant_parameters()
    terms = view.terms(constants)
    form = view.short_form(terms)
    own = pack_terms(
        view.epilogue, specs, terms, form, tiling.terms, _long_table(view, terms, form)
    )
    return (pack_weight(tiling, constants), *own)
