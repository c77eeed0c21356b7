"""Tables of encoders, sampled products and accuracies say what the results say."""

from __future__ import annotations

from typing import Any

from bench_sampled import means
from sparse_attention.section import collection, encoders, softmax

_RUN = {"date": "2026-11-25", "commit": "abcdef012345"}


def _encoder(bits: str, us: float, cudnn: float) -> dict[str, Any]:
    return {
        "case": f"sparse transformer length 4096 heads 8 batch 2 0.9 {bits}", "autoq_us": us,
        "peers": {"torch_fp16_cudnn": cudnn, "torch_fp16_flash": 2 * cudnn}, **_RUN,
    }  # fmt: skip


def test_encoders_are_compared_with_the_fastest_dense_one() -> None:
    rows = [_encoder("8-8", 500.0, 1000.0), _encoder("16-8", 800.0, 1000.0)]
    rows.append({**_encoder("8-8", 400.0, 3200.0), "case": rows[0]["case"].replace("4096", "8192")})
    text = encoders({"device": "NVIDIA X", "cases": rows})
    assert "| 4096, 8, 2 | 0.9 | 1,000 | 800 (1.25) | 500 (2.00) | - |" in text
    assert "| 8192, 8, 2 | 0.9 | 3,200 | - | 400 (8.00) | - |" in text
    assert "at 0.9 1.25 with 16-8 bits, 4.00 with 8-8 bits" in " ".join(text.split())
    assert "2026-11-25, commit abcdef0" in text


def _sampled(dtype: str, us: float | None, sparsity: float, dense: float) -> dict[str, Any]:
    return {
        "dtype": dtype, "us": us, "sparsity": sparsity, "dense_float16_us": dense,
        "dense_int8_us": dense / 2,
    }  # fmt: skip


def test_sampled_products_are_means_over_masks_that_were_right() -> None:
    rows = [
        _sampled("int8", 2.0, 0.9, 4.0), _sampled("int8", 1.0, 0.9, 8.0),
        _sampled("int8", None, 0.9, 1.0), _sampled("float16", 5.0, 0.5, 5.0),
    ]  # fmt: skip
    found = means(rows)
    whole = next(row for row in found if row["sparsity"] is None and row["dtype"] == "int8")
    assert (whole["times_as_fast_as_dense_float16"], whole["matrices"]) == (4.0, 2)
    assert (whole["least"], whole["most"]) == (2.0, 8.0)
    days = [{**rows[0], **_RUN}, {**rows[1], **_RUN, "date": "2026-11-26"}]
    text = collection({"device": "NVIDIA X", "means": found, "rows": days})
    assert "One NVIDIA X, 2026-11-25 to 2026-11-26, commit abcdef0." in text
    assert "| 0.9 | - | 4.00 | - | - | 2.00 |" in text
    assert "| 0.5 | - | - | - | 1.00 | - |" in text


def test_accuracies_are_means_over_seeds() -> None:
    rows = [
        {"sparsity": sparsity, "seed": seed, "attention": name, "accuracy": accuracy}
        for seed, shift in ((0, 0.0), (1, 0.02))
        for sparsity, name, accuracy in (
            (0.0, "float16", 0.6 + shift), (0.9, "float16", 0.5 + shift), (0.9, "8-8", 0.48),
        )
    ]  # fmt: skip
    result = {"device": "NVIDIA X", "rows": rows, "test": 8192, "length": 512, "steps": 3000}
    text = softmax({**result, **_RUN})
    assert "| dense | 61.00% | - | - | - |" in text
    assert "| 0.9 | 51.00% | - | 48.00% | - |" in text
    assert (
        "2 encoders a row, 3,000 steps of training, 8,192 expressions of up to 512 tokens"
        in " ".join(text.split())
    )
