"""A task begins with the kernel that compile takes where nothing has been tuned."""

import pytest

from autoq.compilation.selection import choose
from autoq.devices import resolve
from autoq.records.database import Database
from autoq.templates.operators.attention import Attention
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm
from autoq.templates.registry import TEMPLATES
from autoq.tuning.prepare import tunable
from autoq.tuning.task import ModelWorkload

HOST = resolve("cuda:sm_90a")
HEADS = Attention(
    8, 6, 384, 384, 64, "uint8", "uint8", "uint8", "uint8",
    q_order="blhd", k_order="blhd", v_order="blhd", y_order="blhd", quantised_scores=True,
)  # fmt: skip


@pytest.mark.parametrize(
    "workload",
    [
        HEADS,
        Gemm(4, 1024, 4096),
        Gemm(4096, 4096, 4096),
        Conv2d(8, 14, 14, 256, 256, 3, 3),
        Conv2d(8, 14, 14, 256, 256, 3, 3, groups=8),
    ],
    ids=str,
)
def test_the_first_template_is_the_one_that_compile_takes(workload):
    ((_, templates),) = tunable([ModelWorkload(workload, 1)], TEMPLATES, HOST.target)
    chosen = choose(workload, HOST, Database([]), TEMPLATES)
    assert chosen is not None and len(templates) > 1
    assert templates[0] is chosen.template
