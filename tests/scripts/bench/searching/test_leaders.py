"""Leaders of recorded spaces, which are timed again to tell luck from speed."""

from __future__ import annotations

import bench_leaders
import numpy as np
import pytest
import rerecord_leaders

from autoq.errors import RecordError
from autoq.knowledge.shipped import shipped_models
from autoq.knowledge.training import lessons_of
from autoq.measure.job import REGISTRY, load_registry
from autoq.records.recorded_space import read_space
from autoq.replaying.loading import shipped_spaces

# A depthwise layer of some dozens of recorded configurations.
SPACE = "n8-3x3-7x7x960-960-g960"
TEMPLATES = load_registry(REGISTRY)


@pytest.fixture(scope="module")
def recorded():
    """A recorded space, and its lesson."""
    (path,) = [one for one in shipped_spaces() if SPACE in one.name]
    space = read_space(path)
    (lesson,) = lessons_of([space], TEMPLATES)
    return space, lesson


def test_leaders_are_those_that_were_recorded_fastest_and_controls_are_slower(recorded):
    _, lesson = recorded
    rows = bench_leaders.wanted(lesson, 3, 2)
    order = np.argsort(lesson.seconds, kind="stable")
    assert rows[:3] == order[:3].tolist()
    defaults = {i for i, drawn in enumerate(lesson.drawn) if drawn == "default"}
    assert defaults and defaults <= set(rows) and len(set(rows)) == len(rows)
    controls = [row for row in rows[3:] if row not in defaults]
    assert len(controls) == 2
    ratios = lesson.seconds[controls] / lesson.seconds.min()
    assert (ratios > 1.05).all() and (ratios < 1.5).all()


def test_what_a_model_expects_to_be_fast_comes_behind_the_leaders(recorded):
    _, lesson = recorded
    (model,) = shipped_models()
    rows = bench_leaders.expected(lesson, model, 4)
    slowness, _ = model.doubted(lesson.matrix(model.columns))
    assert len(rows) == 4 and np.isfinite(lesson.seconds[rows]).all()
    unlisted = np.setdiff1d(np.flatnonzero(np.isfinite(lesson.seconds)), rows)
    assert slowness[rows].max() <= slowness[unlisted].min()
    assert bench_leaders.wanted(lesson, 0, 0, rows)[:4] == rows
    assert bench_leaders.expected(lesson, None, 4) == []


def test_a_lucky_best_is_told_from_the_best():
    def row(rank, recorded, *times):
        return {"rank": rank, "recorded_us": recorded, "us": list(times)}

    rows = [
        row(0, 9.0, 10.0, 10.0, 10.0),
        row(1, 9.5, 9.6, 9.5, 9.4),
        row(30, 12.0, 12.0, 12.0, 12.0),
    ]
    rows.append(row(2, 9.7, None))
    found = bench_leaders.summary(rows)
    assert found["best"] == 1
    assert found["recorded_best_over_best"] == pytest.approx(10 / 9.5, abs=1e-4)
    assert found["controls_over_recorded"] == 1.0
    assert found["leaders_over_recorded"] > 1
    assert found["deviation"] == pytest.approx(
        np.std([9.6 / 9.5, 1, 9.4 / 9.5] + [1] * 6), abs=1e-4
    )


def test_second_times_are_medians_of_passes_less_what_the_device_is_slower(recorded):
    space, lesson = recorded
    case = bench_leaders.case_of(lesson, bench_leaders.wanted(lesson, 3, 4))
    for row in case["configurations"]:
        row["us"] = [1.1 * row["recorded_us"]] * 3
    lucky = case["configurations"][0]
    lucky["us"] = [1.1 * lucky["recorded_us"], 1.32 * lucky["recorded_us"], 9e9]
    case["configurations"][1]["us"] = [None] * 3
    case["summary"] = {"controls_over_recorded": 1.1}
    found = rerecord_leaders.retimed(space, lesson, case, TEMPLATES)
    (again,) = lessons_of([found], TEMPLATES)
    assert len(again.seconds) == len(lesson.seconds)

    def times(one):
        return {
            (name, repr(config)): (seconds, drawn)
            for name, config, seconds, drawn in zip(
                one.templates, one.configs, one.seconds, one.drawn, strict=True
            )
        }

    before, after = times(lesson), times(again)
    best = int(np.argmin(lesson.seconds))
    slower = lesson.templates[best], repr(lesson.configs[best])
    for name, (seconds, drawn) in before.items():
        expected = 1.2 * seconds if name == slower else seconds
        assert after[name] == (pytest.approx(expected, rel=1e-4), drawn)


def test_second_times_of_a_space_that_has_changed_since_are_refused(recorded):
    space, lesson = recorded
    case = bench_leaders.case_of(lesson, bench_leaders.wanted(lesson, 3, 0))
    case["summary"] = {"controls_over_recorded": 1.0}
    case["configurations"][0]["recorded_us"] *= 1.01
    with pytest.raises(RecordError, match="have changed"):
        rerecord_leaders.retimed(space, lesson, case, TEMPLATES)


def test_spaces_whose_leaders_and_controls_differ_are_not_comparable():
    def case(leaders, controls):
        return {"summary": {"leaders_over_recorded": leaders, "controls_over_recorded": controls}}

    assert rerecord_leaders.comparable(case(1.02, 1.01))
    assert rerecord_leaders.comparable(case(1.25, 1.24))
    assert not rerecord_leaders.comparable(case(1.2, 1.13))
    assert not rerecord_leaders.comparable(case(0.95, 1.0))
