"""What a thread of a swapped product keeps of its two channels of each block, before it stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm.script import tirx as T

from autoq.templates.cuda.device.functions import DeviceFunction


@dataclass(frozen=True)
class ChannelFunction:
    """The helper that writes the state of two channels from their scale and bias.

    first: word of the state of the first block; words: those of a block.
    """

    prepare: DeviceFunction
    first: int
    words: int


class ChannelStates:
    """What stores share: the state is made once where weights stay, or else before each tile.

    state: a thread's registers; a store has them, and says by `describe_channels` what they hold.
    """

    state: Any

    def describe_channels(self, channels: ChannelFunction, scale: Any, bias: Any) -> None:
        """channels: how the state is made; scale, bias: arrays of all channels."""
        self.channels, self.scale, self.bias = channels, scale, bias

    @T.inline
    def start_tile(self, plan, n, first_block, thread):
        """Before the main loop of a tile."""
        if not plan.resident:
            self.prepare_channels(plan, n, first_block, thread)

    @T.inline
    def prepare_channels(self, plan, n, first_block, thread):
        """The state of a thread's channels."""
        for block in T.unroll(plan.blocks):
            channel = T.meta_var(
                plan.first_channel(n, first_block + block) + plan.row(thread.warp, thread.lane)
            )
            T.cuda.func_call(
                self.channels.prepare.name,
                self.state.ptr_to([self.channels.first + self.channels.words * block]),
                self.scale.ptr_to([channel]),
                self.bias.ptr_to([channel]),
                source_code=self.channels.prepare.source,
            )
