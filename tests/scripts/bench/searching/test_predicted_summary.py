"""What untuned choices take over tuned records, summed up."""

from __future__ import annotations

import bench_predicted


def test_a_summary_leaves_to_the_default_what_a_model_does_not_know():
    rows = [
        {"family": "a", "record_us": 10.0, "default_us": 11.0, "shape_left_out_us": 10.0,
         "network_left_out_us": None},
        {"family": "b", "record_us": 10.0, "default_us": 12.0, "shape_left_out_us": 14.0,
         "network_left_out_us": 20.0, "shape_left_out_promised": 1.2,
         "network_left_out_promised": 1.01},
    ]  # fmt: skip
    found = bench_predicted.summary(rows)
    assert found["all"]["default"]["mean"] == 1.15
    assert found["all"]["shape_left_out"] == {
        "cases": 2, "mean": 1.2, "median": 1.2, "worst": 1.4, "predicted": 2
    }  # fmt: skip
    assert found["all"]["network_left_out"]["mean"] == 1.55
    # Of the first row no promise is noted, and the second's choice promises 1% only.
    assert found["all"]["shape_left_out, promised 1.05"]["mean"] == 1.25
    assert found["all"]["network_left_out, promised 1.05"] == {
        "cases": 2, "mean": 1.15, "median": 1.15, "worst": 1.2, "predicted": 0
    }  # fmt: skip
    assert found["all"]["default"]["predicted"] == 0
    assert found["a"]["network_left_out"] == {
        "cases": 1, "mean": 1.1, "median": 1.1, "worst": 1.1, "predicted": 0
    }  # fmt: skip
