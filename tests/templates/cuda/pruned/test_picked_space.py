"""The tile-wise kernel that picks: what it takes, and its space."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from picked_workloads import BYTES, CLASS, FLOATS, PIXELS, TARGET

from autoq.errors import InputError
from autoq.kernel.lowering import cuda_source, lower
from autoq.templates.base import Template
from autoq.templates.cuda.pruned.picked.gemm_tile_picked import TEMPLATE
from autoq.templates.cuda.pruned.tile_wise.gemm_tile_wise import TEMPLATE as TILE_WISE_TEMPLATE
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.float_conv2d import FloatConv2d
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.sparse.structure import Structure
from autoq.templates.target import parse_target


@pytest.mark.parametrize("template", [TEMPLATE, TILE_WISE_TEMPLATE], ids=lambda t: t.name)
def test_spaces_of_the_widest_tiles_can_be_sampled(template: Template) -> None:
    """Tiles that cannot be joined are refused, whichever rule is asked first."""
    workload = replace(BYTES, n=600, sparsity=Sparsity("tw", 256, 600, Structure(512, 192, 320)))
    drawn = template.space(workload, TARGET).sample(np.random.default_rng(1), 40)
    assert len(drawn) == 40 and {config.joined for config in drawn} == {1}


@pytest.mark.parametrize("conv", [Conv2d, FloatConv2d])
def test_groups_have_no_sparsity(conv: type[Conv2d] | type[FloatConv2d]) -> None:
    with pytest.raises(InputError, match="the weight of one group"):
        conv(1, 8, 8, 32, 32, 3, 3, groups=2, sparsity=PIXELS.sparsity)
    assert conv(1, 8, 8, 32, 32, 3, 3, groups=2).with_sparsity(CLASS) is None


@pytest.mark.parametrize("template", [TEMPLATE, TILE_WISE_TEMPLATE], ids=lambda t: t.name)
def test_ptxas_knows_the_registers_of_a_launch(template: Template) -> None:
    """Without the blocks of a multiprocessor it ignores setmaxnreg, and spills."""
    program = template.program(BYTES, template.default(BYTES, TARGET), TARGET)
    source = cuda_source(lower(program.stages[-1].function, TARGET), TARGET)
    assert "setmaxnreg.inc" in source and re.search(r"__launch_bounds__\(\d+, \d+\)", source)


def test_what_it_declines() -> None:
    assert TEMPLATE.matches(BYTES, TARGET) and TEMPLATE.matches(FLOATS, TARGET)
    assert not TEMPLATE.matches(BYTES, parse_target("cuda:sm_80"))
    others = (
        BYTES.dense, replace(BYTES, sparsity=replace(CLASS, granularity=512)),
        replace(BYTES, k=200), replace(FLOATS, k=100), replace(BYTES, epilogue=Epilogue("int4")),
        replace(PIXELS, zero_point_border=True), replace(PIXELS, c=24), PIXELS.dense,
    )  # fmt: skip
    assert not any(TEMPLATE.matches(workload, TARGET) for workload in others)
