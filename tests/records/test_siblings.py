"""Records of a device of the same chip: used last, only where they ship, and named."""

import dataclasses
from collections import Counter

import numpy as np
import pytest

from autoq.compilation.selection import choose
from autoq.devices import Host
from autoq.records import Database, Device
from autoq.records.database import SHIPPED, Conditions
from autoq.records.lines import Lines
from autoq.records.siblings import SIBLINGS, siblings
from autoq.templates import TEMPLATES
from autoq.templates.target import parse_target

H100 = "NVIDIA H100 80GB HBM3"
CONDITIONS = Conditions("sm_90a", H100, {"halo": 1})


def _lines(path, *records):
    return Lines(path, records, (), False)


def _seconds(found):
    return [one.record.seconds for one in found]


def test_each_device_is_of_one_group_and_no_sibling_of_itself():
    counts = Counter(name for group in SIBLINGS for name in group)
    assert set(counts.values()) == {1}
    assert siblings(H100)[0] == "NVIDIA H200" and H100 not in siblings(H100)
    assert siblings("NVIDIA H100 PCIe") == ()


def test_shipped_records_of_a_sibling_are_lent_and_no_others(record):
    database = Database(
        [
            _lines(f"{SHIPPED}h200/a.jsonl", record(seconds=2e-6), record(seconds=1e-6)),
            _lines("mine.jsonl", record(seconds=5e-7)),
            _lines(
                f"{SHIPPED}a/b.jsonl",
                record(seconds=1e-7, device=Device("NVIDIA H100 PCIe", "sm_90a")),
                record(seconds=1e-7, device=Device("NVIDIA H200", "sm_80")),
                record(seconds=1e-7, template_version=2),
            ),
        ]
    )
    workload = record().workload
    assert _seconds(database.lent(workload, CONDITIONS)) == [1e-6, 2e-6]
    assert database.ranked(workload, CONDITIONS) == []
    assert database.lent(workload, dataclasses.replace(CONDITIONS, device=None)) == []


@pytest.fixture(scope="module")
def shipped():
    return Database.load([], shipped=True)


def _layer(shipped):
    """A product with a shipped record whose configuration is not the untuned default."""
    target = parse_target("cuda:sm_90a")
    for found in shipped:
        workload = found.record.workload
        if workload.operator == "gemm" and found.record.device.name == "NVIDIA H200":
            untuned = choose(workload, Host(target, "another"), shipped, TEMPLATES)
            tuned = choose(workload, Host(target, "NVIDIA H200"), shipped, TEMPLATES)
            if untuned.config != tuned.config:
                return workload, tuned
    raise AssertionError("no shipped product differs from its default")


def test_compile_takes_a_siblings_kernel_and_says_whose(shipped, record):
    target = parse_target("cuda:sm_90a")
    workload, tuned = _layer(shipped)
    lent = choose(workload, Host(target, H100), shipped, TEMPLATES)
    assert (lent.template.name, lent.config) == (tuned.template.name, tuned.config)
    assert lent.lender == "NVIDIA H200" and tuned.lender == ""
    assert choose(workload, Host(target, "NVIDIA H100 PCIe"), shipped, TEMPLATES).lender == ""


def test_a_record_of_the_device_itself_goes_before_a_faster_lent_one(shipped):
    target = parse_target("cuda:sm_90a")
    workload, tuned = _layer(shipped)
    found = next(one for one in shipped if one.record.workload == workload)
    template = next(one for one in TEMPLATES if one.name == found.record.template)
    space = template.space(workload, target)
    drawn = space.sample(np.random.default_rng(0), 8)
    other = next(config for config in drawn if config != tuned.config)
    own = dataclasses.replace(
        found.record, device=Device(H100, "sm_90a"), config=space.to_dict(other), seconds=1.0
    )
    database = Database([_lines("mine.jsonl", own), *shipped.files])
    chosen = choose(workload, Host(target, H100), database, TEMPLATES)
    assert chosen.config == other and chosen.source == "mine.jsonl" and chosen.lender == ""
