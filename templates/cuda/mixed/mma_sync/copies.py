"""Copies of a stage, from global to shared memory: rows of x, weights, and what groups need.

cp.async fills with zeros what lies beyond k. Without it, as on sm_75 and where rows of x do not
start at multiples of 4 bytes, a copy waits in registers until its stage is free.
"""

from tvm.script import tirx as T

from autoq.templates.cuda.device.functions import DeviceFunction, device_function
from autoq.templates.cuda.mixed.mma_sync.tiling import UNIT_BYTES

# words: a unit; left: values of the row from there on.
_READ_UNIT = r"""
__device__ __forceinline__ void read_unit_@(unsigned* words, const void* from, int left) {
  #pragma unroll
  for (int i = 0; i < 4; ++i) words[i] = 0;
  #pragma unroll
  for (int i = 0; i < 16 / PIECE; ++i)
    if (i * (PIECE / VALUE) < left) {
      BODY
    }
}
"""
_READ_WORDS = """const VECTOR piece = static_cast<const VECTOR*>(from)[i];
      memcpy(words + i * (PIECE / 4), &piece, PIECE);"""
_READ_PARTS = """words[i * PIECE / 4] |= (unsigned)static_cast<const VECTOR*>(from)[i]
                              << 8 * PIECE * (i % (4 / PIECE));"""
_VECTORS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "uint2", 16: "uint4"}


def read_unit(piece: int, value_bytes: int) -> DeviceFunction:
    """read_unit(words, from, left): 16 bytes of a row, zeros beyond its end, `piece` at a time.

    left: values of `value_bytes` from there to the row's end.
    """
    body = (_READ_PARTS if piece < 4 else _READ_WORDS).replace("VECTOR", _VECTORS[piece])
    source = _READ_UNIT.replace("BODY", body).replace("PIECE", str(piece))
    source = source.replace("VALUE", str(value_bytes))
    return device_function("read_unit", source)


@T.meta_class
class Sources:
    """What a block's copies read.

    x: rows of x of all products; weight: packed; groups: words of groups, any array without groups;
    place: the block's tile; policy: of the L2 for weights; held: registers of what waits for its
    stage.
    """

    def __init__(self, x, weight, groups, place, policy, held):
        self.x = x
        self.weight = weight
        self.groups = groups
        self.place = place
        self.policy = policy
        self.held = held


@T.inline
def fetch_x(plan, smem, sources, step, stage, i, index):
    """One copy of a row of x; rows beyond a product's last one are that one again."""
    at = T.meta_var(plan.x_place(index))
    row: T.int32 = sources.place.first_x + T.min(
        sources.place.m * plan.config.block_m + at[0], plan.workload.m - 1
    )
    k: T.int32 = step * plan.config.block_k + at[1]
    inside = T.meta_var(k < plan.workload.k)
    source = T.meta_var(sources.x.ptr_to([row, T.if_then_else(inside, k, 0)]))
    if plan.asynchronous:
        T.ptx[plan.copy_x](
            smem.ptr_to([plan.x_target(stage, index)]), source, plan.piece,
            T.if_then_else(inside, T.uint32(plan.piece), T.uint32(0)),
        )  # fmt: skip
    else:
        T.cuda.func_call(
            plan.read_unit.name, sources.held.ptr_to([4 * i]), source, plan.workload.k - k,
            source_code=plan.read_unit.source,
        )  # fmt: skip


@T.inline
def fetch_unit(plan, smem, sources, source, target, policy, held):
    """One copy of 16 bytes of weights, or of what groups need."""
    if plan.asynchronous:
        if policy:
            T.ptx[plan.copy_weights](smem.ptr_to([target]), source, UNIT_BYTES, sources.policy[0])
        else:
            T.ptx["cp.async.cg.shared.global.L2::128B"](smem.ptr_to([target]), source, UNIT_BYTES)
    else:
        T.ptx["ld.global.v4.b32"](*[sources.held[held + j] for j in range(4)], source)


@T.inline
def fetch_groups(plan, smem, sources, step, stage, thread):
    """A thread's copies of what groups need."""
    for i in T.unroll(plan.group_rounds):
        index = T.meta_var(i * plan.config.threads + thread.index)
        if index < plan.group_copies:
            at = T.meta_var(plan.group_source(sources.place.weight_n, step, index))
            source = T.meta_var(sources.groups.ptr_to([at]))
            fetch_unit(
                plan, smem, sources, source, plan.group_target(stage, index), False,
                4 * (plan.x_rounds + plan.weight_rounds + i),
            )  # fmt: skip


@T.inline
def fetch(plan, smem, sources, step, stage, thread):
    """All copies of a thread for one step of the reduction."""
    for i in T.unroll(plan.x_rounds):
        index = T.meta_var(i * plan.config.threads + thread.index)
        if index < plan.x_copies:
            fetch_x(plan, smem, sources, step, stage, i, index)
    for i in T.unroll(plan.weight_rounds):
        index = T.meta_var(i * plan.config.threads + thread.index)
        if index < plan.weight_copies:
            at = T.meta_var(plan.weight_source(sources.place.weight_n, step, index))
            source = T.meta_var(sources.weight.ptr_to([at]))
            fetch_unit(
                plan, smem, sources, source, plan.weight_target(stage, index), plan.hinted,
                4 * (plan.x_rounds + i),
            )  # fmt: skip
    if plan.stage_groups > 0:
        fetch_groups(plan, smem, sources, step, stage, thread)


@T.inline
def keep_unit(smem, sources, first, target):
    """A unit that waited in registers to its stage."""
    T.ptx["st.shared.v4.b32"](smem.ptr_to([target]), *[sources.held[first + j] for j in range(4)])


@T.inline
def keep(plan, smem, sources, stage, thread):
    """What waits in registers to its stage."""
    for i in T.unroll(plan.x_rounds):
        index = T.meta_var(i * plan.config.threads + thread.index)
        if index < plan.x_copies:
            keep_unit(smem, sources, 4 * i, plan.x_target(stage, index))
    for i in T.unroll(plan.weight_rounds):
        index = T.meta_var(i * plan.config.threads + thread.index)
        if index < plan.weight_copies:
            first = T.meta_var(4 * (plan.x_rounds + i))
            keep_unit(smem, sources, first, plan.weight_target(stage, index))
    if plan.stage_groups > 0:
        for i in T.unroll(plan.group_rounds):
            index = T.meta_var(i * plan.config.threads + thread.index)
            if index < plan.group_copies:
                first = T.meta_var(4 * (plan.x_rounds + plan.weight_rounds + i))
                keep_unit(smem, sources, first, plan.group_target(stage, index))
