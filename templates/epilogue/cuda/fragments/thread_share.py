"""What one thread finishes of an output tile whose accumulators are fragments of wgmma."""

from tvm.script import tirx as T


@T.meta_class
class ThreadShare:
    """What a thread finishes of an output tile: two rows of each 64 of its consumer.

    place: of the tile; first_row: where the consumer's rows begin in it; part: which slice of the
    consumer's accumulators it finishes; block: the one of the consumer's 64-row blocks that it
    finishes, None for all of them.
    """

    def __init__(self, place, thread, first_row, part=0, block=None):
        self.place = place
        self.thread = thread
        self.first_row = first_row
        self.part = part
        self.block = block

    def steps(self, plan):
        """How many units it stores."""
        return plan.units if self.block is None else plan.groups

    def unit(self, plan, step):
        """The unit that it stores at a step."""
        if self.block is None:
            return plan.unit(step, self.part)
        return plan.unit_of(self.block, step)

    def row(self, block, half):
        """Tile row of a thread's accumulators: its warp's 16 rows, 8 apart for the two halves."""
        thread = self.thread
        return self.first_row + block * 64 + thread.warp * 16 + half * 8 + thread.lane // 4

    def channel(self, plan, group):
        """First of a thread's consecutive output channels in a group of columns."""
        first = self.place.n * plan.config.block_n + plan.column(group)
        return first + self.thread.lane % 4 * plan.channels

    def pixel(self, plan, block, half):
        """The pixel of one of a thread's two rows of a 64-row block."""
        return plan.load.pixel(self.place.m, self.row(block, half))

    def pixels(self, plan, block):
        """The pixels of both."""
        return [self.pixel(plan, block, half) for half in (0, 1)]

    def rows(self, plan, step):
        """The two rows of the unit that it stores at a step."""
        unit = self.unit(plan, step)
        return UnitRows(unit, self.channel(plan, unit.group), self.pixels(plan, unit.block))


@T.meta_class
class UnitRows:
    """A thread's two rows of a unit: their pixels, and the first of its channels there."""

    def __init__(self, unit, channel, pixels):
        self.unit = unit
        self.channel = channel
        self.pixels = pixels

    def there(self, plan):
        """Whether the rows exist, and channels left."""
        exist = [T.if_then_else(pixel.exists, 1, 0) for pixel in self.pixels]
        return [*exist, plan.workload.k - self.channel]

    def residuals(self, plan, arrays):
        """Where the residuals are in registers."""
        return [arrays.words.ptr_to([plan.residual_at(self.unit, half)]) for half in (0, 1)]

    def outputs(self, plan, arrays):
        """Where the outputs go."""
        return [arrays.output(pixel, self.channel, plan.workload.k) for pixel in self.pixels]

    def sums(self, plan, accumulator, arrays):
        """What every requantising function takes first: sums, scales, both biases, scalars."""
        biases = [plan.bias_offset(pixel) + self.channel for pixel in self.pixels]
        return [
            accumulator.ptr_to([self.unit.accumulator]),
            arrays.scale.ptr_to([self.channel]),
            *(arrays.bias.ptr_to([place]) for place in biases),
            arrays.scalars.ptr_to([0]),
        ]

    def stores(self, plan, arrays):
        """What every requantising function takes last but for a table.

        Residuals, outputs, whether they exist, channels left and row scales.
        """
        return [
            *self.residuals(plan, arrays),
            *self.outputs(plan, arrays),
            *self.there(plan),
            *arrays.row_scales(
                plan.workload.epilogue,
                [pixel.index // (plan.workload.p * plan.workload.q) for pixel in self.pixels],
                [pixel.exists for pixel in self.pixels],
            ),
        ]
