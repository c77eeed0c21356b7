"""Records to write, read and choose from."""

import pytest

from autoq.records import Device, Record
from autoq.templates.operators.conv2d import Conv2d

H200 = Device("NVIDIA H200", "sm_90a", driver="580.65", cuda="13.0")
WORKLOAD = Conv2d(8, 56, 56, 64, 64, 3, 3, padding=(1, 1, 1, 1))


def make_record(**changes) -> Record:
    fields = {
        "workload": WORKLOAD,
        "template": "halo",
        "template_version": 1,
        "config": {"tile": 8, "cluster": [1, 2]},
        "device": H200,
        "time": "2026-11-20T12:00:00Z",
        "seconds": 3.8e-6,
        "repeats": 20,
        "tvm": "0.27.0.post1",
        "autoq": "0.1.0",
    }
    fields.update(changes)
    if fields.get("failure"):
        fields["seconds"] = None
        fields["repeats"] = 0
    return Record(**fields)


@pytest.fixture
def record():
    return make_record
