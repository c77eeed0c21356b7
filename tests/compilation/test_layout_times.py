"""Times by which layouts are chosen, what `tune` is given to fill them, and what ResNets get."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import pytest
from onnx_models.networks import resnet_path

from autoq.compilation.layout_times import LayoutTimes
from autoq.devices import Host
from autoq.errors import InputError
from autoq.frontend import load
from autoq.graph import Graph, optimise
from autoq.graph.lowering.layouts import choose_layouts
from autoq.records import Database, Device, Record
from autoq.records.lines import Lines
from autoq.templates.arrays.layout import LAYOUTS, NHWC, NHWCNC
from autoq.templates.cuda.mma_sync.conv2d_mma_sync import TEMPLATE
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.pool2d import Pool2d
from autoq.templates.operators.relayout import Relayout
from autoq.templates.registry import TEMPLATES, matching
from autoq.templates.target import parse_target
from autoq.tuner import list_tasks
from autoq.tuning.prepare import in_layouts
from autoq.tuning.task import ModelWorkload

CONV = Conv2d(8, 14, 14, 64, 64, 3, 3, padding=(1, 1, 1, 1))
BLOCKED = dataclasses.replace(CONV, in_layout=NHWCNC, out_layout=NHWCNC)
READS = dataclasses.replace(CONV, in_layout=NHWCNC)


def host(arch: str) -> Host:
    return Host(parse_target(f"cuda:{arch}"), None)


def record(workload: Conv2d, seconds: float, arch: str = "sm_80") -> Record:
    target = parse_target(f"cuda:{arch}")
    config = TEMPLATE.space(workload, target).to_dict(TEMPLATE.default(workload, target))
    return Record(
        workload, TEMPLATE.name, TEMPLATE.version, config, Device("GPU", arch),
        "2026-11-20T12:00:00Z", seconds, repeats=5,
    )  # fmt: skip


def times(arch: str, *records: Record) -> LayoutTimes:
    return LayoutTimes(host(arch), Database([Lines("mine.jsonl", records, (), False)]), TEMPLATES)


def test_records_go_before_estimates_and_scale_them():
    found = times("sm_80", record(CONV, 30e-6), record(BLOCKED, 20e-6))
    assert found.seconds(CONV) == 30e-6
    assert found.seconds(BLOCKED) == 20e-6
    assert found.seconds(READS) == pytest.approx(30e-6), "the same estimate as in NHWC"
    other = times("sm_80", record(BLOCKED, 20e-6))
    assert other.seconds(CONV) == pytest.approx(20e-6)


def test_estimates_alone_say_nothing_of_layouts():
    assert {times("sm_80").seconds(laid) for laid in CONV.laid_out()} == {None}


def test_estimates_of_different_templates_are_not_compared():
    """On sm_90a wgmma is preferred in NHWC, and only a record speaks for NHWCnc."""
    assert times("sm_90a").seconds(BLOCKED) is None
    found = times("sm_90a", record(BLOCKED, 5e-6, "sm_90a"))
    assert found.seconds(BLOCKED) == 5e-6 and found.seconds(CONV) is None


def test_a_relayout_takes_its_bytes_by_the_memory_rate():
    large = Relayout(128, 56, 56, 256, NHWC, NHWCNC)
    rate = host("sm_80").target.memory_rate
    assert times("sm_80").copying_seconds(large) == 2 * 128 * 56 * 56 * 256 / rate
    small = times("sm_80").copying_seconds(Relayout(8, 1, 1, 16, NHWC, NHWCNC))
    assert small is not None and small >= 1e-6, "a launch costs time, too"
    cpu = LayoutTimes(Host(parse_target("cpu"), None), Database([]), TEMPLATES)
    assert cpu.copying_seconds(large) is None and cpu.seconds(BLOCKED) is None


@functools.cache
def resnet(arch: str) -> Graph:
    graph = load(resnet_path(18, "QDQ"), {"input": (8, 3, 64, 64)})
    return optimise(graph, parse_target(f"cuda:{arch}"))


def convolutions(graph: Graph) -> list[Conv2d]:
    works = [node.workload for node in graph.nodes if hasattr(node, "workload")]
    return [work for work in works if isinstance(work, Conv2d)]


def relayouts(graph: Graph) -> list[Relayout]:
    works = [node.workload for node in graph.nodes if hasattr(node, "workload")]
    return [work for work in works if isinstance(work, Relayout)]


def records_of(graph: Graph, seconds: Callable[[Conv2d], float], arch: str) -> list[Record]:
    laid = dict.fromkeys(laid for conv in convolutions(graph) for laid in conv.laid_out())
    return [record(work, seconds(work), arch) for work in laid]


def faster_blocked(work: Conv2d) -> float:
    return 20e-6 - 1.4e-6 * (work.in_layout, work.out_layout).count(NHWCNC)


def slower_blocked(work: Conv2d) -> float:
    return 20e-6 + 2e-6 * (work.in_layout, work.out_layout).count(NHWCNC)


def test_a_resnet_keeps_nhwcnc_along_its_chain():
    """Pools read and write NHWC: copies lie behind the first one and before the last one."""
    graph = resnet("sm_80")
    found = choose_layouts(graph, times("sm_80", *records_of(graph, faster_blocked, "sm_80")))
    works = convolutions(found)
    assert len(works) == len(convolutions(graph)) == 20
    assert (works[0].in_layout, works[0].out_layout) == (NHWC, NHWC)
    assert {(work.in_layout, work.out_layout) for work in works[1:]} == {(NHWCNC, NHWCNC)}
    copies = [(copy.h, copy.c, copy.out_layout) for copy in relayouts(found)]
    assert copies == [(16, 64, NHWCNC), (2, 512, NHWC)]


def test_a_resnet_stays_nhwc_where_that_is_faster_or_nothing_is_known():
    graph = resnet("sm_80")
    records = records_of(graph, slower_blocked, "sm_80")
    assert choose_layouts(graph, times("sm_80", *records)) is graph
    assert choose_layouts(graph, times("sm_80")) is graph


def test_a_resnet_stays_nhwc_where_wgmma_is_preferred():
    graph = resnet("sm_90a")
    assert choose_layouts(graph, times("sm_90a")) is graph


MODELS = [
    ModelWorkload(CONV, 2, ("a", "b")),
    ModelWorkload(Conv2d(8, 14, 14, 64, 24, 1, 1), 1),
    ModelWorkload(Conv2d(8, 14, 14, 64, 64, 3, 3, groups=64), 1),
    ModelWorkload(Gemm(8, 1000, 64), 1),
    ModelWorkload(Pool2d("max", 8, 14, 14, 64, 2, 2), 1),
]


def in_both(arch: str, layouts: tuple[str, ...]) -> list[ModelWorkload]:
    return in_layouts(MODELS, layouts, TEMPLATES, parse_target(f"cuda:{arch}"))


def test_convolutions_are_tuned_in_every_pair_of_layouts_they_have():
    found = in_both("sm_80", LAYOUTS)
    laid = [model.workload for model in found if isinstance(model.workload, Conv2d)]
    assert laid[:4] == CONV.laid_out() and {m.count for m in found[:4]} == {2}
    assert [(work.in_layout, work.out_layout) for work in laid[4:]] == [
        (NHWC, NHWC), (NHWCNC, NHWC), (NHWC, NHWC),
    ]  # fmt: skip
    assert [model.workload for model in found[-2:]] == [model.workload for model in MODELS[-2:]]
    assert in_both("sm_80", (NHWC,)) == MODELS
    blocked = in_both("sm_80", (NHWCNC,))
    assert [m.workload for m in blocked if isinstance(m.workload, Conv2d)] == [BLOCKED]
    assert all(matching(model.workload, parse_target("cuda:sm_80")) for model in found)


def test_a_layout_that_no_convolution_has_is_refused():
    small = [ModelWorkload(dataclasses.replace(CONV, n=4), 1)]
    with pytest.raises(InputError, match=r"--layouts nhwcnc: no convolution"):
        in_layouts(small, LAYOUTS, TEMPLATES, parse_target("cuda:sm_80"))
    with pytest.raises(InputError, match=r"--layouts nhwcnc: no convolution"):
        list_tasks([one.workload for one in MODELS], target="cpu", layouts=LAYOUTS)
    with pytest.raises(InputError, match=r"'NCHW' is unknown"):
        list_tasks([one.workload for one in MODELS], target="cpu", layouts=("NCHW",))
    assert len(list_tasks([CONV], target="cuda:sm_80", layouts=LAYOUTS)) == 4
