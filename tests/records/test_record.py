"""The JSON line of a record."""

import json
import zlib

import pytest

from autoq.errors import RecordError
from autoq.records import Record
from autoq.records.line import seal
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.add import Add
from autoq.templates.operators.concat import Concat
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm


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


@pytest.mark.parametrize("flag", ["confirmed", "overlapped"])
def test_a_line_says_how_its_time_came_about(record, flag):
    written = record(**{flag: True})
    assert Record.from_line(written.to_line()) == written
    assert flag not in record().to_line()


def test_a_line_says_what_the_issue_of_records_asks_for(record):
    fields = json.loads(record().to_line())
    assert {"workload", "template", "template_version", "config", "seconds", "device", "arch",
            "driver", "cuda", "tvm", "autoq", "time"} <= set(fields)  # fmt: skip


def test_unknown_fields_of_a_later_autoq_are_passed_over(record):
    fields = {**_unsealed(record()), "power_watts": 700}
    assert Record.from_line(seal(fields)) == record()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": 99}, "format 99"),
        ({"failure": "cosmic", "seconds": None}, "cosmic"),
        ({"failure": "timeout"}, "exactly one"),
        ({"format": True}, "format True"),
        ({"format": 1.0}, "format 1.0"),
        ({"seconds": -1.0}, "out of range"),
        ({"seconds": 0}, "out of range"),
        ({"seconds": 5e-324}, "out of range"),
        ({"seconds": 1e-17}, "out of range"),
        ({"seconds": 1e300}, "out of range"),
        ({"seconds": 10**400}, "out of range"),
        ({"seconds": float("nan")}, "out of range: NaN"),
        ({"seconds": float("-inf")}, "out of range: -Infinity"),
        ({"seconds": True}, "not a number"),
        ({"seconds": "fast"}, "not a number"),
        ({"template_version": 1.9}, "template_version 1.9"),
        ({"template_version": True}, "template_version True"),
        ({"template_version": -1}, "negative"),
        ({"repeats": "20"}, "repeats '20'"),
        ({"template": ["halo"]}, "template"),
        ({"device": None}, "device None"),
        ({"device": "\ud800"}, "surrogate"),
        ({"device": "GPU\x1b[2J"}, "cannot be printed"),
        ({"device": "x" * 5000}, "5000 characters"),
        ({"message": {"text": "spills"}}, "message"),
        ({"config": {"tile": float("inf")}}, "out of range: Infinity"),
        ({"config": {"tile": 10**400}}, "integer of 401 digits"),
        ({"config": {"tile\ud83d": 8}}, "surrogate"),
        ({"workload": ["conv2d"]}, "workload"),
        ({"workload": {"operator": ["conv2d"]}}, "workload"),
        ({"workload": {"operator": "add", "shape": [1 << 62] * 40}}, "out of range"),
        ({"workload": {"operator": "add", "shape": [2], "a_dtype": "int9"}}, "int9"),
        ({"config": [1]}, "config"),
        ({"confirmed": 1}, "neither true nor false"),
        ({"overlapped": 1}, "neither true nor false"),
        ({"workload": {"operator": "fft"}}, "fft"),
        ({"workload": {"operator": "conv2d", "n": 1}}, "workload"),
    ],
)
def test_an_invalid_field_is_named(record, change, says):
    fields = {**_unsealed(record()), **change}
    lines = [seal_anything(fields)]
    if not {"confirmed", "overlapped"} & {*change}:  # Older lines have no such fields.
        lines.append(json.dumps(fields))
    for line in lines:
        with pytest.raises(RecordError, match=says) as caught:
            Record.from_line(line)
        assert "\n" not in str(caught.value) and len(str(caught.value)) <= 200


POOL = {"operator": "pool2d", "kind": "max", "n": 1, "h": 8, "w": 8, "c": 8, "r": 2, "s": 2}


def test_a_stride_of_nothing_is_no_workload(record):
    for workload in ({**POOL, "stride": [0, 1]}, {**POOL, "stride": [1, 0]}):
        with pytest.raises(RecordError, match="workload"):
            Record.from_line(seal({**_unsealed(record()), "workload": workload}))


@pytest.mark.parametrize("depth", [20, 900, 100_000])
def test_deep_nesting_is_refused(record, depth):
    line = record().to_line().replace('"tile":8', '"tile":' + "[" * depth + "]" * depth)
    with pytest.raises(RecordError, match=r"nested too deep|checksum differs"):
        Record.from_line(line)
    with pytest.raises(RecordError, match="nested too deep"):
        Record.from_line(line[: line.index(',"crc32"')] + "}")


def test_every_changed_digit_is_noticed(record):
    line = record(seconds=1.25e-07).to_line().encode()
    digits = [at for at in range(len(line)) if chr(line[at]).isdigit()]
    assert len(digits) > 50
    for at in digits:
        changed = bytearray(line)
        changed[at] = ord("0") + (line[at] - ord("0") + 1) % 10
        with pytest.raises(RecordError):
            Record.from_line(bytes(changed))


def test_spacing_order_and_a_damaged_checksum_are_noticed(record):
    line = record().to_line()
    fields = json.loads(line)
    for changed in (
        json.dumps(fields),
        json.dumps(dict(reversed(fields.items())), separators=(",", ":")),
        line.replace('"crc32"', '"crc23"'),
        line.replace(',"crc32":"', ',"crc32":" '),
        line[:-1] + ',"seconds":1e-8}',
        line[:-1] + ',"note":1}',
    ):
        assert changed != line
        with pytest.raises(RecordError):
            Record.from_line(changed)


def test_no_piece_that_is_missing_makes_a_line_an_older_one(record):
    """Whatever is cut out, only the whole checksum leaves a line that is read, as it was."""
    line, written = record().to_line(), record()
    for last in range(line.index('"time"'), len(line)):
        for first in range(line.index('"autoq"'), last):
            try:
                read = Record.from_line(line[:first] + line[last:])
            except RecordError:
                continue
            assert read == written, line[first:last]


def test_a_line_of_an_older_autoq_has_no_checksum(record):
    assert Record.from_line(json.dumps(_unsealed(record()))) == record()


@pytest.mark.parametrize("around", [b"%b\r\n", b" %b \n", b"%b"])
def test_line_ends_are_no_part_of_a_line(record, around):
    assert Record.from_line(around % record().to_line().encode()) == record()


@pytest.mark.parametrize(
    ("mangle", "says"),
    [
        (lambda line: b"\xef\xbb\xbf" + line, "not JSON"),
        (lambda line: line.decode().encode("utf-16"), "not UTF-8"),
        (lambda line: line.decode().encode("utf-16-le"), "not JSON"),
        (lambda line: line.replace(b"halo", b"h\xe4lo"), "not UTF-8"),
        (lambda line: b"\0" * len(line), "not JSON"),
        (lambda line: line + line, "not JSON"),
        (lambda line: b"{" + b" " * (1 << 20) + line[1:], "too long"),
    ],
)
def test_other_encodings_are_refused(record, mangle, says):
    with pytest.raises(RecordError, match=says):
        Record.from_line(mangle(record().to_line().encode()))


def test_any_message_is_stored_and_read_back(record):
    for message in ("bytes \udce4 of a locale", "x" * 1_000_000, "two\nlines"):
        read = Record.from_line(record(failure="compile", message=message).to_line())
        assert read.failure == "compile" and read.message[:5] == message[:5]


def _unsealed(record):
    fields = json.loads(record.to_line())
    del fields["crc32"]
    return fields


def seal_anything(fields):
    """As `seal`, of numbers that JSON does not have, too."""
    body = json.dumps(fields, separators=(",", ":"))[:-1]
    return f'{body},"crc32":"{zlib.crc32(body.encode()):08x}"}}'


@pytest.mark.parametrize("name", ["template", "config", "device", "arch", "time", "workload"])
def test_a_missing_field_is_named(record, name):
    fields = _unsealed(record())
    del fields[name]
    with pytest.raises(RecordError, match=name):
        Record.from_line(json.dumps(fields))
