"""The JSON line of a record."""

import json

import pytest

from autoq.errors import RecordError
from autoq.records import Record
from autoq.templates.epilogue import Epilogue
from autoq.templates.movement import Add, Concat
from autoq.templates.workload import Conv2d, Gemm


@pytest.mark.parametrize(
    "workload",
    [
        Conv2d(1, 7, 7, 512, 512, 3, 3, (2, 2), (1, 1, 1, 1), epilogue=Epilogue("int8", "int8")),
        Gemm(8, 1000, 2048, epilogue=Epilogue("float32")),
        Add((8, 56, 56, 256)),
        Concat(100, (3, 5), ("int8", "uint8"), (True, False)),
    ],
    ids=str,
)
def test_a_line_reads_back_as_the_same_record(record, workload):
    written = record(workload=workload)
    assert Record.from_line(written.to_line()) == written


def test_a_failure_reads_back_with_its_kind_and_message(record):
    written = record(failure="timeout", message="ran longer than 10 s")
    read = Record.from_line(written.to_line())
    assert read == written and read.seconds is None


def test_a_line_says_whether_a_comparison_confirmed_it(record):
    written = record(confirmed=True)
    assert Record.from_line(written.to_line()) == written
    assert "confirmed" not in record().to_line()


def test_a_line_says_what_the_issue_of_records_asks_for(record):
    fields = json.loads(record().to_line())
    assert {"workload", "template", "template_version", "config", "seconds", "device", "arch",
            "driver", "cuda", "tvm", "autoq", "time"} <= set(fields)  # fmt: skip


def test_unknown_fields_of_a_later_autoq_are_passed_over(record):
    fields = {**json.loads(record().to_line()), "power_watts": 700}
    assert Record.from_line(json.dumps(fields)) == record()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": 99}, "format 99"),
        ({"failure": "cosmic", "seconds": None}, "cosmic"),
        ({"failure": "timeout"}, "exactly one"),
        ({"seconds": -1.0}, "positive"),
        ({"seconds": float("nan")}, "positive"),
        ({"seconds": "fast"}, "invalid field"),
        ({"config": [1]}, "config"),
        ({"confirmed": 1}, "neither true nor false"),
        ({"workload": {"operator": "fft"}}, "fft"),
        ({"workload": {"operator": "conv2d", "n": 1}}, "workload"),
    ],
)
def test_an_invalid_field_is_named(record, change, says):
    fields = {**json.loads(record().to_line()), **change}
    with pytest.raises(RecordError, match=says):
        Record.from_line(json.dumps(fields))


@pytest.mark.parametrize("name", ["template", "config", "device", "arch", "time", "workload"])
def test_a_missing_field_is_named(record, name):
    fields = json.loads(record().to_line())
    del fields[name]
    with pytest.raises(RecordError, match=name):
        Record.from_line(json.dumps(fields))
