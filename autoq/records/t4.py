"""Recorded spaces as T4 JSON, the autotuning community's format for results.

Source: the schemas "T1" to "T4" of the FAIR benchmark suite (odziemczuk et al., BAT; Kernel Tuner's
`store_output_file`): a list of results, each a configuration with times in milliseconds, whether it
is valid, and its measurements.
"""

from __future__ import annotations

from typing import Any

from autoq.records.recorded_space import RecordedWorkload, SpaceTrial

_INVALIDITY = {
    "compile": "compile",
    "runtime": "runtime",
    "timeout": "timeout",
    "correctness": "correctness",
    "constraints": "constraints",
}


def to_t4(space: RecordedWorkload) -> dict[str, Any]:
    """The T4 object of a recorded space, ready for JSON."""
    return {
        "schema_version": "1.0.0",
        "metadata": {
            "autotuner": f"autoq {space.autoq}".strip(),
            "hardware": {"name": space.device.name, "arch": space.device.arch},
            "problem": str(space.workload),
        },
        "results": [_result(space, trial) for trial in space.trials],
    }


def _result(space: RecordedWorkload, trial: SpaceTrial) -> dict[str, Any]:
    milliseconds = None if trial.seconds is None else trial.seconds * 1e3
    return {
        "timestamp": space.last,
        "configuration": {"template": trial.template, **trial.config},
        "objectives": ["time"],
        "times": {"runtimes": [] if milliseconds is None else [milliseconds]},
        "invalidity": "correct" if trial.failure is None else _INVALIDITY[trial.failure],
        "correctness": int(trial.failure is None),
        "measurements": []
        if milliseconds is None
        else [{"name": "time", "value": milliseconds, "unit": "ms"}],
    }
