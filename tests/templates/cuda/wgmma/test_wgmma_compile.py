"""The wgmma kernels lower and pass nvcc for sm_90a; defaults do not spill."""

from __future__ import annotations

import numpy as np
import pytest
from wgmma_cases import CASES, TARGET, TEMPLATES, case_id

from autoq.kernel import compile_kernel
from autoq.kernel.kernel_store import KernelStore
from autoq.templates.cuda.wgmma.config import WgmmaConfig
from autoq.templates.cuda.wgmma.register_need import reallocates
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm
from autoq.templates.workload import Workload


@pytest.mark.parametrize("case", CASES[::3], ids=case_id)
def test_default_compiles_without_spills(case: tuple[str, Workload]) -> None:
    name, workload = case
    template = TEMPLATES[name]
    config = template.default(workload, TARGET)
    assert template.space(workload, TARGET).rejection(config) is None
    kernel = compile_kernel(template.build(workload, config, TARGET), TARGET)
    assert kernel.spill_bytes == 0
    (launch,) = kernel.launches
    assert launch.block == (config.threads, 1, 1)
    convolution = workload.as_conv2d() if isinstance(workload, Gemm) else workload
    layout = config.layout(convolution)
    assert launch.smem_bytes == config.smem_bytes(layout)
    assert_pool_holds_budget(workload, config, kernel.registers)


@pytest.mark.parametrize("case", CASES[1::5], ids=case_id)
def test_sampled_configuration_compiles(case: tuple[str, Workload]) -> None:
    name, workload = case
    template = TEMPLATES[name]
    (config,) = template.space(workload, TARGET).sample(np.random.default_rng(3), 1)
    kernel = KernelStore(None).kernel(template, workload, config, TARGET)
    assert_pool_holds_budget(workload, config, kernel.registers)


def assert_pool_holds_budget(workload: Workload, config: WgmmaConfig, launched: int) -> None:
    """A block that asks setmaxnreg for more than it was launched with would hang.

    One that does not ask takes what all blocks of a multiprocessor have room for.
    """
    budget = config.registers
    conv = workload.as_conv2d() if isinstance(workload, Gemm) else workload
    if not reallocates(conv, config):
        assert launched <= budget.launch
        return
    asked = budget.producer + config.consumers * budget.consumer
    assert asked <= launched * (config.consumers + 1)


def test_blocks_take_no_more_registers_than_they_need() -> None:
    """So that those of the next kernel find room beside them."""
    workload = Gemm(1024, 768, 768, "uint8", epilogue=Epilogue("uint8", "uint8", True))
    template = TEMPLATES["gemm_wgmma"]
    config = template.default(workload, TARGET)
    assert (config.consumers, config.accumulators) == (1, 48)
    kernel = compile_kernel(template.build(workload, config, TARGET), TARGET)
    assert kernel.registers <= 96
    image = Conv2d(8, 14, 14, 256, 256, 1, 1, epilogue=Epilogue("uint8"))
    assert reallocates(image, template.default(image, TARGET))
