"""The storm notices what it is there to notice."""

import dataclasses
import subprocess
import sys
import time
from dataclasses import dataclass

import numpy as np
import pytest
from storm_checks import Checks
from storm_victims import KINDS, children, strike

from autoq.records.record import Device, Record
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.gemm import Gemm


@dataclass(frozen=True)
class Printed:
    text: str = ""
    errors: str = ""


RECORD = Record(
    workload=Gemm(16, 24, 32, epilogue=Epilogue(out_dtype="int32")),
    template="good",
    template_version=1,
    config={"block": 1, "order": "mn", "behaviour": "right"},
    device=Device("a CPU", "generic"),
    time="2026-01-01T00:00:00Z",
    seconds=1e-6,
    repeats=3,
)
OTHER = dataclasses.replace(RECORD, config={**RECORD.config, "block": 2})


@pytest.fixture
def checks(tmp_path):
    (tmp_path / "tmp").mkdir()
    checks = Checks(tmp_path / "records.jsonl", tmp_path / "tmp", "cpu")
    checks.records.write_text(RECORD.to_line() + "\n")
    checks.after_a_run(Printed("1/8 trials"))
    return checks


def test_a_clean_round_has_nothing_to_complain_of(checks):
    with checks.records.open("a") as file:
        file.write(OTHER.to_line() + "\n" + OTHER.to_line()[:40])
    checks.after_a_run(Printed("2/8 trials, failures: none"))
    checks.records.write_text(RECORD.to_line() + "\n" + OTHER.to_line() + "\n")
    checks.after_a_run(Printed())
    checks.after_a_round()
    assert checks.complaints == [] and checks.trials == 2


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda checks: checks.records.write_text(OTHER.to_line() + "\n"), "have changed"),
        (lambda checks: checks.records.unlink(), "have changed"),
    ],
)
def test_lost_records_are_noticed(checks, damage, complaint):
    damage(checks)
    checks.after_a_run(Printed())
    assert complaint in checks.complaints[0]


def test_reported_trials_and_tracebacks_are_noticed(checks):
    checks.after_a_run(Printed("2/8 trials", "Traceback (most recent call last):"))
    assert [text.split(":")[0] for text in checks.complaints] == [
        "2 trials were reported, 1 are on the disk",
        "a traceback",
    ]


@pytest.mark.parametrize(
    ("leave", "complaint"),
    [
        (lambda checks: (checks.temporary / "tmpxft").touch(), "['tmpxft']"),
        (lambda checks: checks.records.open("a").write("{}\n"), "damaged lines"),
        (lambda checks: checks.records.open("a").write(RECORD.to_line() + "\n"), "twice"),
        (lambda checks: (checks.records.parent / ".records.part").touch(), "beside the records"),
    ],
)
def test_what_a_round_leaves_is_noticed(checks, leave, complaint):
    leave(checks)
    checks.after_a_round()
    assert len(checks.complaints) == 1 and complaint in checks.complaints[0]


def test_every_kind_of_kill_finds_its_victim():
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    command = [
        sys.executable,
        "-c",
        code.replace("subprocess.run", "subprocess.Popen") + "; input()",
    ]
    for kind in KINDS:
        process = subprocess.Popen(command, stdin=subprocess.PIPE)
        while not children(process.pid):
            time.sleep(0.01)
        below = children(process.pid)
        hit = strike(kind, process.pid, np.random.default_rng(0))
        assert hit == ([process.pid] if kind == "tuner" else below), kind
        process.kill()
        process.communicate()
    assert sum(KINDS.values()) == pytest.approx(1)
