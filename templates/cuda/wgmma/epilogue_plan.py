"""What the epilogue of a wgmma tile is written with: its rows, its forms and its residuals."""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Any

from autoq.templates.borders.classes import border_classes
from autoq.templates.borders.row import bias_row
from autoq.templates.cuda.device.functions import DeviceFunction
from autoq.templates.cuda.device.pixel import Pixel
from autoq.templates.cuda.device.weights import LAST_CHANNELS, ceil_div
from autoq.templates.cuda.wgmma.config import PipelineConfig
from autoq.templates.epilogue.cuda.fragments.fragment_rows import FragmentRows
from autoq.templates.epilogue.cuda.fragments.range_rows import RangeRows
from autoq.templates.epilogue.cuda.fragments.scale_groups import add_group
from autoq.templates.epilogue.cuda.fragments.started_rows import (
    keep_start,
    shared_residual,
    start_alike,
    start_rows,
)
from autoq.templates.epilogue.cuda.fragments.wgmma_units import GroupedColumns, Unit
from autoq.templates.epilogue.cuda.parameters.scalars import scalar_words, scale_words
from autoq.templates.epilogue.cuda.short_forms.allowed import boundable, convertible, readable
from autoq.templates.epilogue.cuda.short_forms.long_table import MORE_WORDS, has_long_table
from autoq.templates.epilogue.cuda.short_forms.words import WORDS
from autoq.templates.epilogue.cuda.values.requantisation import Form
from autoq.templates.operators.conv2d import Conv2d


class EpiloguePlan(GroupedColumns):
    """Compile-time constants of the functions of `epilogue/cuda/fragments/wgmma_tile.py`.

    A unit is a group of channels in a 64-row block of a thread's accumulators.
    """

    def __init__(self, workload: Conv2d, config: PipelineConfig) -> None:
        self.workload, self.config, self.epilogue = workload, config, workload.epilogue
        self.rows, self.columns = border_classes(workload)
        self.classes = self.rows.count * self.columns.count
        self.padded_n = ceil_div(workload.k, config.block_n) * config.block_n
        self.channels, self.groups = config.channels, config.groups
        self.first_column = 0
        self.units = config.m_blocks * self.groups // config.parts
        self.block_accumulators = config.block_n // 2
        self.uniform = self.epilogue.uniform
        self.bounded = boundable(self.epilogue) and not self.uniform
        self.has_limits = self.bounded or self.uniform
        self.convertible = convertible(self.epilogue)
        self.readable = readable(self.epilogue)
        self.limits_at = scalar_words(self.epilogue)
        self.grouped = self.epilogue.scale_group > 0
        self.scales = scale_words(self.epilogue, self.padded_n, workload.scale_groups)
        self.biases = self.classes * self.padded_n * workload.scale_groups
        if self.epilogue.dynamic:
            self.biases += self.padded_n
        self.scalars = self.limits_at + (WORDS if self.has_limits else 0)
        self.long_table = has_long_table(self.epilogue)
        if self.long_table:
            self.scalars += MORE_WORDS

    def for_last_columns(self) -> EpiloguePlan:
        """A plan like this one, of which nothing was asked yet, of the last columns."""
        plan = copy.copy(self)
        plan.channels, plan.groups, plan.units = LAST_CHANNELS, 1, self.config.m_blocks
        plan.first_column = self.config.block_n - self.config.last_columns
        return plan

    @cached_property
    def row_epilogue(self) -> FragmentRows:
        """Two rows of a thread's channels."""
        return FragmentRows(
            self.epilogue.values if self.epilogue.by_range else self.epilogue,
            self.channels,
            self.workload.k,
            tail=self.padded_n != self.workload.k,
            row_bias=self.classes > 1,
            bias=not (self.has_limits or self.grouped),
            shift_at=self.padded_n * self.workload.scale_groups,
            columns_at=self.padded_n,
        )

    @property
    def group_stages(self) -> int:
        """Pipeline stages that share scales, where groups along k have scales of their own."""
        return self.epilogue.scale_group // (self.config.row_bytes * self.config.per_stage)

    def step_of_sums(self, k: Any) -> Any:
        """How many stages stage k of the main loop adds to."""
        return k % self.group_stages if self.grouped else k

    @cached_property
    def add_group(self) -> DeviceFunction:
        """Scales the sums of a group along k and adds them to those before."""
        return add_group(self.config.m_blocks, self.config.block_n // 8)

    @cached_property
    def requantise(self) -> DeviceFunction:
        """Stores a unit, whatever its operands."""
        return self.row_epilogue.rows()

    @cached_property
    def values_of_rows(self) -> DeviceFunction:
        """Leaves the values of a unit in the place of its sums."""
        return RangeRows(self.row_epilogue).values()

    @cached_property
    def bytes_of_rows(self) -> DeviceFunction:
        """Stores such values as bytes."""
        return RangeRows(self.row_epilogue).bytes()

    @cached_property
    def bounded_rows(self) -> DeviceFunction:
        """Stores a unit where `bounds.py` proves its values small."""
        return self.row_epilogue.rows(Form.BOUNDED)

    @cached_property
    def converted_rows(self) -> DeviceFunction:
        """Stores a unit where `conversion.py` proves its roundings."""
        return self.row_epilogue.rows(Form.CONVERTED)

    @cached_property
    def read_rows(self) -> DeviceFunction:
        """Stores a unit where `read_sums.py` proves its bounds."""
        return self.row_epilogue.rows(Form.READ)

    @cached_property
    def one_scale_rows(self) -> DeviceFunction:
        """Stores a unit where `one_scale.py` proves the steps of all channels."""
        return self.row_epilogue.rows(Form.ONE_SCALE)

    @cached_property
    def uniform_rows(self) -> DeviceFunction:
        """Stores a unit of a uniform epilogue, whatever the scale."""
        return self.row_epilogue.rows(Form.UNIFORM)

    @cached_property
    def start_rows(self) -> DeviceFunction:
        """Loads the bias of a unit into its accumulators."""
        return start_rows(self.channels, self.classes > 1)

    @cached_property
    def keep_start(self) -> DeviceFunction:
        """Leaves that number where a warp's lanes read it."""
        return keep_start()

    @cached_property
    def start_alike(self) -> DeviceFunction:
        """Gives all accumulators one number."""
        return start_alike(self.config.accumulators)

    @cached_property
    def shared_residual(self) -> DeviceFunction:
        """Loads a row's residuals from shared memory."""
        return shared_residual()

    @cached_property
    def load_residual(self) -> DeviceFunction:
        """Loads a row's residuals from global memory."""
        return self.row_epilogue.load()

    @property
    def started(self) -> bool:
        """Whether accumulators hold something before the first product."""
        return self.has_limits or self.config.parts > 1

    @property
    def table_start(self) -> bool:
        """Whether accumulators start from the table of scale and bias."""
        return self.classes == 1

    @property
    def words(self) -> int:
        """Registers of a row's residuals."""
        return self.row_epilogue.residual_words

    @property
    def residual_ahead(self) -> bool:
        return self.config.residual_ahead

    @property
    def residual_early(self) -> bool:
        """Whether residuals are fetched before the main loop."""
        return self.config.residual_early and self.words > 0

    @property
    def residual_late(self) -> bool:
        """Whether they are fetched with each unit."""
        return not self.config.residual_early and self.words > 0

    @property
    def residual_registers(self) -> int:
        held = self.units if self.residual_early else 1
        return max(1, held * 2 * self.words)

    def bias_offset(self, pixel: Pixel) -> Any:
        """Offset of an output pixel's border class in the flat bias table."""
        if self.classes == 1:
            return 0
        return bias_row(self.rows, self.columns, pixel.p, pixel.q) * self.padded_n

    def residual_at(self, unit: Unit, half: Any) -> Any:
        """First register of a fragment row's residual."""
        return ((unit.index if self.residual_early else 0) * 2 + half) * self.words

    def unit(self, step: Any, part: Any) -> Unit:
        """The unit that comes at a step of the epilogue of a part."""
        config, channels = self.config, self.channels
        if config.parts == 1:
            return self.unit_at(step, config.m_blocks, config.channels_outer)
        index = part * self.units + step
        return Unit(step, step * (2 * channels), index // self.groups, index % self.groups)
