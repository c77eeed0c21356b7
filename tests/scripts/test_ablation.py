"""The ablation's variants, its tuning over a recorded-like measurer, and what it reports."""

from __future__ import annotations

import json
from concurrent.futures import Future

import ablation
import pytest
from ablation_plot import draw
from ablation_report import bars_text, case_row, speedups, table_text
from ablation_tuning import SUB_SPACES, exhaustive, sub_space, tune_bars
from ablation_variants import ACCUMULATED, MARGINAL, SEARCHED, VARIANTS

from autoq.devices import Host
from autoq.measure.job import Job, Measurement
from autoq.records.journal import Journal
from autoq.records.record import Device
from autoq.search.space import Space
from autoq.templates.cuda.conv2d_mma_sync import TEMPLATE
from autoq.templates.cuda.mma_sync_default import estimated_seconds
from autoq.templates.target import parse_target
from autoq.templates.workload import Conv2d
from autoq.tuning.asking import LocalAsker, SearchSettings
from autoq.tuning.options import TuneOptions

TARGET = parse_target("cuda:sm_90a")
SMALL = Conv2d(8, 14, 14, 64, 64, 3, 3, padding=(1, 1, 1, 1))
GAINS = {"shared": 0.9, "register": 0.8, "weights": 0.7, "shuffle": 0.75}


class EstimatingMeasurer:
    """Answers at once with the estimate, shorter for every optimisation."""

    device = Device("a GPU", "sm_90a", "1", "13")
    pipelined = True

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def submit(self, job: Job) -> Future[Measurement]:
        self.jobs.append(job)
        config = job.config
        factor = {"none": 1.0}.get(config.duplicates) or GAINS[config.duplicates]
        factor *= {"shared": 1.0}.get(config.packing) or GAINS[config.packing]
        future: Future[Measurement] = Future()
        seconds = estimated_seconds(job.workload, config, TARGET) * factor
        future.set_result(Measurement(seconds, repeats=3))
        return future

    def close(self) -> None:
        """Nothing to end."""


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    measurer = EstimatingMeasurer()
    settings = TuneOptions(trials=4 * len(VARIANTS), trials_per_task=4, tuner="random")
    asker = LocalAsker(SearchSettings("ablation_variants:TEMPLATES", TARGET, "random"))
    journal = Journal(tmp_path_factory.mktemp("ablation") / "trials.jsonl")
    bars = tune_bars({"small": SMALL}, TARGET, settings, 2, asker, measurer, journal)
    return bars["small"], measurer


def test_every_bar_gets_its_trials_and_keeps_to_its_knobs(tuned):
    bars, measurer = tuned
    assert {name: bar["trials"] for name, bar in bars.items()} == {v.name: 4 for v in VARIANTS}
    for variant in VARIANTS:
        own = [job for job in measurer.jobs if job.template == variant.template]
        assert len(own) == 4
        assert {job.workload for job in own} == {variant.workload(SMALL)}
        for name, allowed in variant.knobs.items():
            assert {getattr(job.config, name) for job in own} <= set(allowed)


def test_the_bars_of_both_figures(tuned):
    row = case_row("small", tuned[0], {"metaschedule_us": 50.0})
    assert list(row["accumulated"]) == [variant.name for variant in ACCUMULATED]
    assert list(row["marginal"]) == [variant.name for variant in MARGINAL]
    assert row["accumulated"]["baseline"] == 1.0
    base, packed = (tuned[0][name]["us"] for name in ("baseline", "packing"))
    assert row["marginal"]["packing"] == round(base / packed, 3)
    json.dumps(row)
    assert f"{base / packed:.2f}x" in bars_text([row], "marginal")
    assert f"{50.0 / row['table']['searched_us']:.2f}x" in table_text([row])


def test_a_bar_without_a_right_kernel_has_no_speedup():
    assert speedups({"baseline": 4.0, "layout": None, "packing": 2.0}, ["layout", "packing"]) == {
        "layout": None,
        "packing": 2.0,
    }
    assert speedups({"baseline": None, "packing": 2.0}, ["packing"]) == {"packing": None}


def test_exhaustive_measures_every_member_of_the_sub_space(tuned):
    bars, _ = tuned
    measurer = EstimatingMeasurer()
    found = exhaustive(SMALL, TARGET, bars[SEARCHED.name], measurer, 40)
    assert found["exhaustive_size"] == len(measurer.jobs) == len(set(measurer.jobs)) > 1
    assert found["exhaustive_us"] <= bars[SEARCHED.name]["us"]
    assert tuple(found["exhaustive_knobs"]) in SUB_SPACES
    assert exhaustive(SMALL, TARGET, bars[SEARCHED.name], measurer, 0) == {"exhaustive_us": None}


def test_sub_spaces_hold_the_configuration_and_shrink_with_the_limit(tuned):
    bars, _ = tuned
    space: Space = TEMPLATE.space(SMALL, TARGET)
    config = space.from_dict(bars[SEARCHED.name]["config"])
    large, small = (sub_space(space, config, limit) for limit in (10_000, 12))
    assert large[0] == SUB_SPACES[0] and config in large[1]
    assert len(small[1]) <= 12 < len(large[1])


def test_stages_are_those_of_the_paper():
    names = ["56x56x64", "28x28x128", "14x14x256", "7x7x512"]
    workloads = ablation.stages(8)
    assert list(workloads) == [f"N8 3x3 {name}" for name in names]
    assert len({workload.operations for workload in workloads.values()}) == 1


def test_both_figures_are_drawn(tuned, tmp_path):
    rows = [case_row(name, tuned[0], {}) for name in ("one", "two")]
    rows[1]["marginal"]["layout"] = None
    path = tmp_path / "figures" / "ablation.png"
    draw({"cases": rows, "device": "a GPU", "trials": 4}, path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_the_script_writes_numbers_and_figures(monkeypatch, tmp_path, capsys):
    """The whole script on one stage, with estimates in the place of a device."""
    settings = SearchSettings("ablation_variants:TEMPLATES", TARGET, "random")
    monkeypatch.setattr(ablation, "resolve", lambda text: Host(TARGET, "a GPU"))
    monkeypatch.setattr(ablation, "require_device", lambda host: None)
    monkeypatch.setattr(ablation, "device_measurer", lambda *arguments: EstimatingMeasurer())
    monkeypatch.setattr(ablation, "make_asker", lambda *arguments, local: LocalAsker(settings))
    output = tmp_path / "ablation.json"
    options = ["--trials", "1", "--exhaustive", "4", "--cases", "28x28", "--output", str(output)]
    monkeypatch.setattr("sys.argv", ["ablation.py", *options])
    ablation.main()
    result = json.loads(output.read_text())
    assert [row["case"] for row in result["cases"]] == ["N8 3x3 28x28x128"]
    assert all(bar["us"] for bar in result["cases"][0]["bars"].values())
    assert result["device"] == "a GPU" and result["trials"] == 1
    assert "register-level packing" in capsys.readouterr().out
    figures = output.with_suffix(".png")
    drawn = figures.read_bytes()
    figures.unlink()
    monkeypatch.setattr("sys.argv", ["ablation.py", "--plot", str(output)])
    ablation.main()
    assert figures.read_bytes() == drawn


def test_metaschedule_joins_an_earlier_run_of_the_same_device(monkeypatch, tmp_path):
    """Its times stand in the table of each case; the bars are those of the earlier run."""
    bars = {variant.name: {"us": 3.0} for variant in VARIANTS}
    cases = [case_row(name, bars, {"exhaustive_us": 2.0}) for name in ablation.stages(8)]
    path = tmp_path / "ablation.json"
    path.write_text(json.dumps({"device": "a GPU", "trials": 4, "cases": cases}))
    monkeypatch.setattr(ablation, "resolve", lambda text: Host(TARGET, "a GPU"))
    monkeypatch.setattr(ablation, "require_device", lambda host: None)
    times = iter([{"metaschedule_us": float(us)} for us in range(4)])
    monkeypatch.setattr(ablation, "metaschedule", lambda workloads, trials: times)
    options = ["--tuned", str(path), "--metaschedule", "4", "--output", str(path)]
    monkeypatch.setattr("sys.argv", ["ablation.py", *options])
    ablation.main()
    result = json.loads(path.read_text())
    assert [row["table"]["metaschedule_us"] for row in result["cases"]] == [0, 1, 2, 3]
    assert [row["bars"] for row in result["cases"]] == [row["bars"] for row in cases]
    assert result["metaschedule_trials"] == 4
    one = iter([{"metaschedule_us": 9.0}])
    monkeypatch.setattr(ablation, "metaschedule", lambda workloads, trials: one)
    monkeypatch.setattr("sys.argv", ["ablation.py", *options, "--cases", "14x14"])
    ablation.main()
    result = json.loads(path.read_text())
    assert [row["table"]["metaschedule_us"] for row in result["cases"]] == [0, 1, 9, 3]
    monkeypatch.setattr(ablation, "resolve", lambda text: Host(TARGET, "another GPU"))
    with pytest.raises(SystemExit, match="was tuned on a GPU; this is another GPU"):
        ablation.main()


def test_unknown_cases_are_named():
    with pytest.raises(SystemExit, match="'5x5' names none of N8 3x3 56x56x64, "):
        ablation.chosen(ablation.stages(8), "5x5")
