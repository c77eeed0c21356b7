"""The ablation's variants, its tuning over a recorded-like measurer, and what it reports."""

from __future__ import annotations

import itertools
import json
from concurrent.futures import Future

import ablation
import pytest
from ablation_plot import draw
from ablation_report import bars_text, case_row, median, speedup, table_text
from ablation_tuning import SUB_SPACES, BarSearch, exhaustive, sub_space
from ablation_variants import ACCUMULATED, MARGINAL, SEARCHED, VARIANTS

from autoq.devices import Host
from autoq.measure.job import Job, Measurement
from autoq.records.lines import read_records
from autoq.records.record import Device
from autoq.search.space import Space
from autoq.templates.cuda.mma_sync.conv2d_mma_sync import TEMPLATE
from autoq.templates.cuda.mma_sync.default import estimated_seconds
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import parse_target
from autoq.tuning.asking import LocalAsker, SearchSettings

TARGET = parse_target("cuda:sm_90a")
SMALL = Conv2d(8, 14, 14, 64, 64, 3, 3, padding=(1, 1, 1, 1))
SMALL_INT4 = Conv2d(
    8, 14, 14, 64, 64, 3, 3, padding=(1, 1, 1, 1), in_dtype="int4", weight_dtype="int4",
    epilogue=Epilogue("int4"),
)  # fmt: skip
GAINS = {"shared": 0.9, "register": 0.8, "weights": 0.7, "shuffle": 0.75}
SEEDS, TRIALS = 2, 4


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


def asker() -> LocalAsker:
    return LocalAsker(SearchSettings("ablation_variants:TEMPLATES", TARGET, "random"))


def search_of(measurer, trials=TRIALS, stop=lambda: False) -> BarSearch:
    return BarSearch(asker(), measurer, TARGET, trials, 2, stop, lambda text: None)


def bars_in(folder, workload=SMALL, name="small"):
    return ablation.make_bars(name, workload, SEEDS, folder, itertools.count())


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    measurer = EstimatingMeasurer()
    folder = tmp_path_factory.mktemp("ablation")
    search, bars = search_of(measurer), bars_in(folder)
    assert search.run(bars)
    return bars, measurer, ablation.finished("small", SMALL, bars, search, 12), folder


def test_every_bar_gets_its_trials_and_keeps_to_its_knobs(tuned):
    bars, measurer, _, _ = tuned
    assert [(bar.variant, bar.seed) for bar in bars] == [
        (variant, seed) for seed in range(SEEDS) for variant in VARIANTS
    ]
    assert {len(bar.trials) for bar in bars} == {TRIALS}
    for variant in VARIANTS:
        own = [job for job in measurer.jobs if job.template == variant.template]
        assert {job.workload for job in own} == {variant.workload(SMALL)}
        for name, allowed in variant.knobs.items():
            assert {getattr(job.config, name) for job in own} <= set(allowed)
    searches = [{trial.config for trial in bar.trials} for bar in bars if bar.variant is SEARCHED]
    assert searches[0] != searches[1]  # a seed is a search of its own


def test_every_variant_has_a_form_in_four_bits(tmp_path):
    measurer = EstimatingMeasurer()
    bars = bars_in(tmp_path, SMALL_INT4)
    assert search_of(measurer, 2).run(bars)
    assert {job.config.packing for job in measurer.jobs if "baseline" in job.template} == {"shared"}
    layouts = {job.workload.in_layout for job in measurer.jobs if "layout" in job.template}
    assert layouts == {"NHWCnc"}
    assert all(bar.best() for bar in bars)


def test_a_stopped_run_goes_on_behind_its_trials(tmp_path):
    first = EstimatingMeasurer()
    turns = iter([False])
    stopped = bars_in(tmp_path)
    assert not search_of(first, stop=lambda: next(turns, True)).run(stopped)
    kept = {bar.index: len(bar.trials) for bar in stopped}
    assert 0 < sum(kept.values()) < TRIALS * len(stopped)
    second = EstimatingMeasurer()
    bars = bars_in(tmp_path)
    assert search_of(second).run(bars)
    assert len(first.jobs) + len(second.jobs) == TRIALS * len(bars)
    for bar in bars:
        assert len({trial.config for trial in bar.trials}) == TRIALS  # none was measured twice
    lines = [read_records(path).records for path in sorted(tmp_path.iterdir())]
    assert [len(records) for records in lines] == [TRIALS * len(VARIANTS)] * SEEDS


def test_trials_of_another_device_are_not_taken(tmp_path):
    assert search_of(EstimatingMeasurer()).run(bars_in(tmp_path))
    other = EstimatingMeasurer()
    other.device = Device("another GPU", "sm_90a", "1", "13")
    assert search_of(other).run(bars_in(tmp_path))
    assert len(other.jobs) == TRIALS * SEEDS * len(VARIANTS)


def test_the_bars_of_both_figures(tuned):
    _, _, row, _ = tuned
    assert list(row["accumulated"]) == [variant.name for variant in ACCUMULATED]
    assert list(row["marginal"]) == [variant.name for variant in MARGINAL]
    base, packed = (row["bars"][name]["us"] for name in ("baseline", "packing"))
    assert len(base) == len(packed) == SEEDS
    found = row["marginal"]["packing"]
    assert found["median"] == round(median(base) / median(packed), 3)
    assert found["low"] == round(median(base) / max(packed), 3) <= found["high"]
    json.dumps(row)
    assert f"{found['median']:.2f}x ({found['low']:.2f} to" in bars_text([row], "marginal")
    assert f"{row['table']['searched_us']:.2f}" in table_text([row])


def test_the_median_is_of_the_searches_that_found_a_kernel():
    assert speedup([2.0, None, 1.0, 4.0], 4.0) == {"median": 2.0, "low": 1.0, "high": 4.0}
    assert speedup([None], 4.0) is None and speedup([2.0], None) is None
    row = case_row("one", {"baseline": {"us": [None]}, "packing": {"us": [2.0]}}, {})
    assert row["marginal"] == {"duplicates": None, "packing": None, "layout": None}
    assert "-" in bars_text([row], "marginal") and "-" in table_text([row])


def test_exhaustive_measures_every_member_of_the_sub_space(tuned):
    _, _, row, _ = tuned
    measurer = EstimatingMeasurer()
    config = row["bars"][SEARCHED.name]["searches"][0]["config"]
    found = exhaustive(SMALL, TARGET, config, measurer, 40)
    assert found["exhaustive_size"] == len(set(measurer.jobs)) > 1
    assert len(measurer.jobs) == found["exhaustive_size"] + 1  # the best one once more
    assert found["exhaustive_us"] <= row["bars"][SEARCHED.name]["us"][0]
    assert tuple(found["exhaustive_knobs"]) in SUB_SPACES
    assert exhaustive(SMALL, TARGET, config, measurer, 0) == {"exhaustive_us": None}


def test_sub_spaces_hold_the_configuration_and_shrink_with_the_limit(tuned):
    _, _, row, _ = tuned
    space: Space = TEMPLATE.space(SMALL, TARGET)
    config = space.from_dict(row["bars"][SEARCHED.name]["searches"][0]["config"])
    large, small = (sub_space(space, config, limit) for limit in (10_000, 12))
    assert large[0] == SUB_SPACES[0] and config in large[1]
    assert len(small[1]) <= 12 < len(large[1])


def test_stages_are_those_of_the_paper_in_both_widths():
    names = ["56x56x64", "28x28x128", "14x14x256", "7x7x512"]
    workloads = ablation.all_stages(8)
    assert list(workloads) == [f"N8 3x3 {name} {d}" for name in names for d in ("int8", "int4")]
    assert len({workload.operations for workload in workloads.values()}) == 1


def test_both_figures_are_drawn(tuned, tmp_path):
    rows = [{**tuned[2], "case": f"{name} {d}"} for name in "ab" for d in ("int8", "int4")]
    rows[1] = {**rows[1], "marginal": {**rows[1]["marginal"], "layout": None}}
    path = tmp_path / "figures" / "ablation.png"
    draw({"cases": rows, "device": "a GPU", "trials": 4, "seeds": 2}, path)
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def script(monkeypatch, tmp_path):
    """Runs the script with estimates in the place of a device; returns what it wrote."""
    monkeypatch.setattr(ablation, "resolve", lambda text: Host(TARGET, "a GPU"))
    monkeypatch.setattr(ablation, "require_device", lambda host: None)
    monkeypatch.setattr(ablation, "device_measurer", lambda *arguments: EstimatingMeasurer())
    monkeypatch.setattr(ablation, "make_asker", lambda *arguments, local: asker())
    output = tmp_path / "ablation.json"

    def run(*options: str):
        fixed = ["--trials", "1", "--seeds", "1", "--exhaustive", "4", "--output", str(output)]
        monkeypatch.setattr("sys.argv", ["ablation.py", *fixed, *options])
        ablation.main()
        return json.loads(output.read_text())

    run.output = output
    return run


def test_the_script_writes_numbers_and_figures(script, monkeypatch, capsys):
    result = script("--cases", "28x28x128 int8")
    assert [row["case"] for row in result["cases"]] == ["N8 3x3 28x28x128 int8"]
    assert all(bar["us"][0] for bar in result["cases"][0]["bars"].values())
    assert result["device"] == "a GPU" and result["trials"] == 1 and result["seeds"] == 1
    assert "register-level packing" in capsys.readouterr().out
    figures = script.output.with_suffix(".png")
    drawn = figures.read_bytes()
    figures.unlink()
    monkeypatch.setattr("sys.argv", ["ablation.py", "--plot", str(script.output)])
    ablation.main()
    assert figures.read_bytes() == drawn


def test_a_second_run_adds_the_cases_that_are_missing(script, monkeypatch, capsys):
    first = script("--cases", "28x28x128 int8")
    stopped = script("--cases", "28x28", "--time-budget", "1e-9")
    assert stopped["cases"] == first["cases"]
    assert "goes on with the trials" in capsys.readouterr().out
    second = script("--cases", "28x28")
    assert [row["case"] for row in second["cases"]] == [
        "N8 3x3 28x28x128 int8", "N8 3x3 28x28x128 int4"
    ]  # fmt: skip
    assert second["cases"][0] == first["cases"][0]
    with pytest.raises(SystemExit, match=r"has trials 1, not 2; move it away"):
        script("--trials", "2")


def test_metaschedule_joins_the_cases_of_bytes(script, monkeypatch):
    """Its times stand in the table of each case; the bars stay as they are."""
    first = script("--cases", "28x28,14x14x256 int8")
    times = iter([{"metaschedule_us": float(us)} for us in range(4)])
    monkeypatch.setattr(
        ablation, "metaschedule", lambda workloads, trials: list(times)[: len(workloads)]
    )
    result = script("--cases", "28x28,14x14x256 int8", "--metaschedule", "4")
    found = {row["case"]: row["table"].get("metaschedule_us") for row in result["cases"]}
    assert found == {
        "N8 3x3 28x28x128 int8": 0.0, "N8 3x3 28x28x128 int4": None, "N8 3x3 14x14x256 int8": 1.0,
    }  # fmt: skip
    assert [row["bars"] for row in result["cases"]] == [row["bars"] for row in first["cases"]]


def test_unknown_cases_are_named():
    with pytest.raises(SystemExit, match="'5x5' names none of N8 3x3 56x56x64 int8, "):
        ablation.chosen(ablation.all_stages(8), "5x5")
