"""Where the consumers of the halo kernels find what they multiply, as wgmma descriptors."""

from tvm.script import tirx as T

from autoq.templates.cuda.device.mma.descriptors import descriptor_step, encode_descriptor


@T.meta_class
class Operands:
    """Where a consumer finds what it multiplies.

    a, b: descriptors of the first halo slot and of the first weights; offsets: what its blocks add
    to one of them.
    """

    def __init__(self, plan):
        self.a = T.local_scalar("uint64")
        self.b = T.local_scalar("uint64")
        self.offsets = T.alloc_local((plan.blocks,), "uint64")

    @T.inline
    def start(self, plan, smem, first_block):
        """first_block: the consumer's first one of its tile."""
        tile = T.meta_var(plan.tile)
        for block in T.unroll(plan.blocks):
            self.offsets[block] = descriptor_step(plan.block_bytes(first_block + block))
        self.a = T.uint64(0)
        self.b = T.uint64(0)
        T.evaluate(
            encode_descriptor(
                self.a, smem.ptr_to([0]), tile.row_bytes, tile.group_rows * tile.row_bytes,
                max(tile.pair_rows, 1) * 16,
            )
        )  # fmt: skip
        T.evaluate(
            encode_descriptor(
                self.b, smem.ptr_to([plan.tiling.weight_offset]), tile.step_bytes,
                8 * tile.step_bytes,
            )
        )  # fmt: skip


@T.meta_class
class CommitGroup:
    """What a commit group multiplies: descriptors of the halo slot and of the group's weights.

    offsets: what the blocks add to the plan's first operand.
    """

    def __init__(self, a, b, offsets):
        self.a = a
        self.b = b
        self.offsets = offsets
