"""Recording on this machine's CPU: planned, compiled ahead, measured, and gone on with."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from dataclasses import fields, replace
from itertools import islice

import onnx
import pytest
from onnx_models.makers import model, node, normal

from autoq.devices import resolve
from autoq.errors import AutoqError, ConfigError, InputError
from autoq.measure.job import REGISTRY, Measurement, load_registry
from autoq.measure.measurer import DeviceMeasurer
from autoq.quantization.quantize import quantize
from autoq.recorder import compile_spaces, measure_spaces, record_spaces
from autoq.recording.bundle import BundleFolder, bundle_folders
from autoq.recording.known import joined
from autoq.recording.options import RecordOptions
from autoq.recording.plan import DEFAULT, ESTIMATED, NEIGHBOUR, UNIFORM, planned
from autoq.recording.planner import Planner
from autoq.recording.workloads import given_workloads
from autoq.records.record import Device
from autoq.records.recorded_space import read_space, write_space
from autoq.search.space import Space
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.workload_key import to_dict
from autoq.tuning.prepare import model_workloads

WORKLOAD = Conv2d(1, 8, 8, 16, 16, 3, 3, padding=(1, 1, 1, 1), in_dtype="int8",
                  epilogue=Epilogue("int8"))  # fmt: skip


def plan(n, target="cuda:sm_90a", seed=0):
    target = resolve(target).target
    templates = [
        t for t in load_registry(REGISTRY).values() if t.tunable and t.matches(WORKLOAD, target)
    ]
    return list(islice(planned(WORKLOAD, templates, target, seed), n)), templates


def test_a_plan_is_distinct_seeded_and_goes_on():
    found, templates = plan(200)
    assert len({one.candidate for one in found}) == 200
    assert plan(60)[0] == found[:60]
    assert plan(60, seed=5)[0] != found[:60]
    assert {one.candidate.template for one in found} == {t.name for t in templates}
    drawn = [one.drawn for one in found]
    assert 0.4 < drawn.count(UNIFORM) / 200 < 0.75
    assert drawn.count(ESTIMATED) and drawn.count(NEIGHBOUR)


def test_a_plan_ends_with_its_space():
    target = resolve("cpu").target
    templates = [
        t for t in load_registry(REGISTRY).values() if t.tunable and t.matches(WORKLOAD, target)
    ]
    whole = list(planned(WORKLOAD, templates, target, 0, exhaustive=True))
    drawn = list(planned(WORKLOAD, templates, target, 0))
    assert {one.candidate for one in drawn} == {one.candidate for one in whole}
    assert len(drawn) == len(whole)


def test_a_plan_goes_outwards_from_the_defaults():
    target = resolve("cuda:sm_90a").target
    templates = plan(1)[1]
    source = planned(WORKLOAD, templates, target, 0, nearby=True)
    found = list(islice(source, 60 * len(templates)))
    assert len({one.candidate for one in found}) == len(found)
    assert [one.drawn for one in found[: len(templates)]] == [DEFAULT] * len(templates)
    for template in templates:
        default = template.default(WORKLOAD, target)
        away = [
            sum(getattr(one, f.name) != getattr(default, f.name) for f in fields(default))
            for one in (each.candidate.config for each in found
                        if each.candidate.template == template.name)
        ]  # fmt: skip
        space = template.space(WORKLOAD, target)
        beside = len(space.neighbour_codes(space.code(default)))
        assert away[: beside + 1] == [0] + [1] * min(beside, 59)
        assert all(one >= 2 for one in away[beside + 1 :])
    with pytest.raises(AutoqError, match="--nearby: --exhaustive"):
        RecordOptions(nearby=True, exhaustive=True)


@pytest.fixture
def options():
    return RecordOptions(samples=3, jobs=1, repeat=3, export=("t4",))


def test_recording_goes_on_where_it_ended(tmp_path, options, in_this_process):
    first = record_spaces([WORKLOAD], tmp_path, options, "cpu")
    assert first.measured.trials == 3 and first.measured.timed > 0
    (written,) = first.written
    assert len(read_space(written.path).trials) == 3
    more = RecordOptions(samples=5, jobs=1, repeat=3)
    second = record_spaces([WORKLOAD], tmp_path, more, "cpu")
    assert second.measured.trials == 2
    space = read_space(written.path)
    assert len(space.trials) == 5
    assert all(trial.drawn for trial in space.trials)
    assert len(json.loads(next(tmp_path.glob("*.t4.json")).read_text())["results"]) == 3


def test_kernels_compiled_ahead_are_measured_elsewhere(tmp_path, options, in_this_process):
    lines = []
    (count,) = compile_spaces([WORKLOAD], tmp_path / "kernels", options, "cpu", lines.append)
    assert (count.compiled, count.known) == (3, 0) and "3 compiled" in lines[0]
    (again,) = compile_spaces([WORKLOAD], tmp_path / "kernels", options, "cpu")
    assert (again.compiled, again.known) == (0, 3)
    found = measure_spaces(tmp_path / "kernels", tmp_path / "spaces", options, "cpu")
    assert found.measured.trials == 3
    (written,) = found.written
    assert [t.drawn for t in written.space.trials if not t.drawn] == []


def test_what_an_earlier_space_holds_is_neither_compiled_nor_measured_again(
    tmp_path, options, in_this_process
):
    (written,) = record_spaces([WORKLOAD], tmp_path / "first", options, "cpu").written
    before = {json.dumps(t.config): t.seconds for t in read_space(written.path).trials}
    more = replace(options, samples=5, seed=1, known=(tmp_path / "first",))
    (count,) = compile_spaces([WORKLOAD], tmp_path / "kernels", more, "cpu")
    assert (count.compiled, count.known) == (2, 0)
    # The space alone, without its record file, is what a recording goes on with.
    (tmp_path / "second").mkdir()
    shutil.copy(written.path, tmp_path / "second")
    found = measure_spaces(tmp_path / "kernels", tmp_path / "second", options, "cpu")
    assert found.measured.trials == 2
    trials = read_space(found.written[0].path).trials
    after = {json.dumps(t.config): t.seconds for t in trials}
    assert len(trials) == 5 and before.items() <= after.items()
    again = record_spaces([WORKLOAD], tmp_path / "second", replace(options, samples=5), "cpu")
    assert again.measured.trials == 0
    with pytest.raises(AutoqError, match="holds no recorded space"):
        compile_spaces([WORKLOAD], tmp_path / "k", replace(more, known=(tmp_path / "k",)), "cpu")


def test_what_a_space_holds_is_measured_once_more_where_that_is_asked_for(
    tmp_path, options, in_this_process
):
    (written,) = record_spaces([WORKLOAD], tmp_path, options, "cpu").written
    lucky = replace(
        written.space, trials=tuple(replace(t, seconds=1e-12) for t in written.space.trials)
    )
    write_space(written.path, lucky)
    drawn = {str(t.config): t.drawn for t in lucky.trials}
    # The space alone, as one that ships.
    written.path.with_name(written.path.name.replace(".space.json.xz", ".jsonl")).unlink()
    for measured in (3, 0):
        found = record_spaces([WORKLOAD], tmp_path, replace(options, again=True), "cpu")
        assert found.measured.trials == measured
        trials = read_space(written.path).trials
        assert len(trials) == 3 and all(t.seconds > 1e-12 for t in trials)
        assert {str(t.config): t.drawn for t in trials} == drawn
    with pytest.raises(AutoqError, match="--again: is of times"):
        RecordOptions(again=True, compile_only=True)


def test_spaces_of_two_devices_are_not_joined(tmp_path, options, in_this_process):
    (written,) = record_spaces([WORKLOAD], tmp_path, options, "cpu").written
    other = replace(written.space, device=Device("another", written.space.device.arch))
    assert joined(written.space, written.space) == written.space
    with pytest.raises(AutoqError, match="on one device"):
        joined(written.space, other)


def test_a_torn_bundle_goes_on_and_a_damaged_one_is_refused(tmp_path, options, in_this_process):
    compile_spaces([WORKLOAD], tmp_path, options, "cpu")
    (folder,) = bundle_folders(tmp_path)
    lines = folder.folder / "candidates.jsonl"
    whole = lines.read_bytes()
    lines.write_bytes(whole[:-30])
    assert len(BundleFolder(folder.folder).compiled) == 2
    (count,) = compile_spaces([WORKLOAD], tmp_path, options, "cpu")
    assert (count.compiled, count.known) == (1, 2)
    lines.write_bytes(whole.replace(b'"drawn"', b'"drown"', 1))
    with pytest.raises(AutoqError, match="line 1"):
        BundleFolder(folder.folder)
    lines.write_bytes(whole)
    kernels = folder.folder / "kernels.bin"
    data = bytearray(kernels.read_bytes())
    data[40] ^= 255
    kernels.write_bytes(data)
    with pytest.raises(AutoqError, match="damaged kernel"):
        for one in folder.compiled:
            folder.kernel(one)


def test_failures_of_changed_sources_are_no_records(
    tmp_path, options, in_this_process, monkeypatch
):

    compile_spaces([WORKLOAD], tmp_path / "kernels", options, "cpu")
    monkeypatch.setattr("autoq.recorder.source_hash", lambda module: "another")

    def transferred(self, job, built, future):
        future.set_result(Measurement(failure="correctness", message="other"))

    monkeypatch.setattr(DeviceMeasurer, "_run", transferred)
    found = measure_spaces(tmp_path / "kernels", tmp_path / "spaces", options, "cpu")
    assert found.measured.foreign == 3 and found.measured.trials == 0


def test_kernels_that_a_new_rule_forbids_are_left_out(
    tmp_path, options, in_this_process, monkeypatch
):
    compile_spaces([WORKLOAD], tmp_path / "kernels", options, "cpu")
    real, asked, said = Space.from_dict, [], []

    def strict(space, values):
        asked.append(values)
        if len(asked) == 1:
            raise ConfigError("a new rule")
        return real(space, values)

    monkeypatch.setattr(Space, "from_dict", strict)
    found = measure_spaces(tmp_path / "kernels", tmp_path / "spaces", options, "cpu", said.append)
    assert found.measured.trials == options.samples - 1
    assert any(text.startswith("1 kernels are of configurations") for text in said)


def test_workloads_come_from_json_records_and_models(tmp_path):
    target, templates = resolve("cpu").target, list(load_registry(REGISTRY).values())
    text = json.dumps(to_dict(WORKLOAD))
    assert given_workloads(text, target, templates) == [WORKLOAD]
    path = tmp_path / "w.json"
    path.write_text(f"[{text}, {text}]")
    assert given_workloads(path, target, templates) == [WORKLOAD]
    path.write_text("[1]")
    with pytest.raises(AutoqError, match=r"w\.json"):
        given_workloads(path, target, templates)


def test_tasks_of_a_model_are_numbered_as_tuning_numbers_them(tmp_path):
    """Of four workloads two have templates with knobs on a CPU."""
    target, templates = resolve("cpu").target, list(load_registry(REGISTRY).values())
    layers = [
        ("Conv", "x w", "a"), ("GlobalAveragePool", "a", "b"), ("Flatten", "b", "c"),
        ("Gemm", "c v", "y"),
    ]  # fmt: skip
    nodes = [node(*layer) for layer in layers]
    weights = {"w": normal(32, 16, 3, 3), "v": normal(32, 16)}
    path, quantised = tmp_path / "m.onnx", tmp_path / "m.int8.onnx"
    onnx.save(model(nodes, {"x": ((1, 16, 8, 8), "float32")}, weights), path)
    quantize(path, None, quantised)
    every = [one.workload for one in model_workloads(quantised, target, templates, None)]
    found = given_workloads(quantised, target, templates)
    assert [type(one).__name__ for one in found] == ["Conv2d", "Gemm"]
    assert len(every) > 2 and every[0] not in found


def test_nothing_is_made_for_workloads_that_cannot_be_tuned(tmp_path, options):
    with pytest.raises(InputError, match="none of the workloads"):
        compile_spaces([], tmp_path / "kernels", options, "cpu")
    assert not (tmp_path / "kernels").exists()


def test_earlier_configurations_count_whatever_the_plan(tmp_path, options, in_this_process):
    """Those of another seed are hardly in the plan, and the wanted number is of all together."""
    record_spaces([WORKLOAD], tmp_path, options, "cpu")
    more = replace(options, samples=options.samples + 2, seed=7)
    found = record_spaces([WORKLOAD], tmp_path, more, "cpu")
    assert found.measured.trials == 2
    (written,) = found.written
    assert len(read_space(written.path).trials) == more.samples


def test_plans_come_from_processes_in_the_order_of_workloads():
    """And a plan that nobody waits for any more is none."""
    host = resolve("cuda:sm_90a")
    wide = replace(WORKLOAD, k=32)
    with closing(Planner(host, RecordOptions(samples=9, jobs=1), [wide, WORKLOAD])) as planner:
        assert planner.plan(WORKLOAD, lambda: False) == plan(9)[0]
        assert len(planner.plan(wide, lambda: False)) == 9
        assert planner.plan(wide, lambda: True) == []


def test_a_workload_is_finished_before_the_next_one_begins(tmp_path, options, in_this_process):
    lines = []
    wide = replace(WORKLOAD, k=32)
    record_spaces([wide, WORKLOAD], tmp_path, replace(options, at_once=1), "cpu", lines.append)
    begun = [line for line in lines if "to measure" in line]
    assert begun == [f"{one}: 3 to measure, 0 are there" for one in (wide, WORKLOAD)]
    with pytest.raises(AutoqError, match="--at-once 0: at least 1"):
        replace(options, at_once=0)
