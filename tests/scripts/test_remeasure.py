"""Old records become new ones, or are left out by reason."""

from __future__ import annotations

import json
import sys

import pytest
import remeasure

from autoq.records.lines import read_records
from autoq.templates.operators.gemm import Gemm
from autoq.templates.registry import matching
from autoq.templates.target import host_cpu
from autoq.templates.workload_key import to_dict


@pytest.mark.usefixtures("in_this_process")
def test_configurations_are_measured_and_recorded(tmp_path, monkeypatch, capsys):
    workload = Gemm(4, 16, 32)
    template = matching(workload, host_cpu())[0]
    config = vars(template.default(workload, host_cpu()))
    line = {"workload": to_dict(workload), "template": template.name, "config": config}
    wrong = [
        {**line, "template": "none such"},
        {**line, "config": {"knob": 1}},
        {**line, "template": "gemm_wgmma"},
        {"workload": line["workload"]},
    ]
    source, output = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    source.write_text("".join(json.dumps(item) + "\n" for item in (line, line, *wrong)))
    arguments = ["remeasure", str(source), "--target", "cpu", "--output", str(output)]
    monkeypatch.setattr(sys, "argv", arguments)
    remeasure.main()
    (record,) = read_records(output).records
    assert record.workload == workload and dict(record.config) == config
    assert record.template_version == template.version and record.seconds > 0
    printed = capsys.readouterr().out
    assert printed.startswith("1 right of 1 in") and "failures: none" in printed
    for reason in ("unknown template", "other knobs", "does not take", "'template'"):
        assert "1 lines left out: " in printed and reason in printed
