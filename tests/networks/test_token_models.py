"""Quantised networks of tokens from the ONNX file to the device: tasks, records, outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_models.oracle import random_feeds, run_onnxruntime
from with_nvcc import needs_nvcc

import autoq
from autoq.devices import resolve
from autoq.models import bert, mlp_mixer, vit
from autoq.quantization.quantize import quantize
from autoq.tuner import list_tasks

NETWORKS = {
    "bert": lambda: bert(1, length=16, width=32, heads=2),
    "vit": lambda: vit(1, width=32, heads=2, patch=8, image=32, classes=10),
    "mixer": lambda: mlp_mixer(1, width=32, hidden=(16, 64), image=64, classes=10),
}


def quantised(name: str, folder: Path) -> Path:
    """The int8 model of a network, calibrated on random numbers."""
    onnx.save(NETWORKS[name](), folder / "float.onnx")
    quantize(folder / "float.onnx", None, folder / "int8.onnx")
    return folder / "int8.onnx"


PRODUCTS = {
    "bert": {"16x32x32", "16x128x32", "16x32x128", "1x2 16x16x16 bmhk,bnhk,bhmn",
             "1x2 16x16x16 bhmk,bkhn,bmhn"},
    "vit": {"17x32x32", "1x32x32", "1x128x32", "1x32x128", "1x10x32",
            "1x2 17x17x16 bmhk,bnhk,bhmn", "1x2 17x16x17 bhmk,bkhn,bmhn"},
    "mixer": {"32x16x16", "16x64x32", "16x32x64", "1x10x32"},
}  # fmt: skip

SHARED = {"bert": ("3 of 16x32x32", set()), "vit": ("3 of 17x32x32", {"17x32x32"})}
"""Queries, keys and values, which wgmma's template computes in one launch, and what is not there
for it: behind the attention of ViT's last layer one token is read."""


@pytest.mark.parametrize("name", NETWORKS)
def test_products_are_tasks(name, tmp_path):
    path = quantised(name, tmp_path)
    for target in ("cpu", "cuda:sm_80", "cuda:sm_90a"):
        rows = list_tasks(path, target=resolve(target), use_shipped_records=False)
        found = {str(row.workload) for row in rows if "gemm" in row.workload.operator}
        fused = [row.workload for row in rows if row.workload.operator == "attention"]
        batched = {product for product in PRODUCTS[name] if "," in product}
        if target != "cpu" and batched:  # scores, softmax and values are one kernel
            shared, gone = SHARED[name]
            joined = target == "cuda:sm_90a"
            wanted = (PRODUCTS[name] - gone | {shared}) if joined else PRODUCTS[name]
            assert len(fused) == 1 and found == wanted - batched
        else:
            assert not fused and found == PRODUCTS[name]


@pytest.mark.usefixtures("in_this_process")
def test_tuned_compiled_and_run_it_gives_what_onnxruntime_gives(tmp_path):
    path, records = quantised("bert", tmp_path), tmp_path / "records.jsonl"
    summary = autoq.tune(path, target="cpu", trials=3, output=records, jobs=1)
    assert summary.measured == 3 and not summary.failures
    autoq.compile(path, target="cpu", tuning_records=[records], output=tmp_path / "a.autoq", jobs=1)
    feeds = random_feeds(path)
    (y,) = autoq.Session(tmp_path / "a.autoq").run(None, feeds)
    np.testing.assert_allclose(y, run_onnxruntime(path, feeds)["output"], rtol=1e-4, atol=1e-5)


@needs_nvcc
def test_an_artifact_for_a_gpu_compiles(tmp_path):
    path = quantised("bert", tmp_path)
    autoq.compile(path, target="cuda:sm_80", output=tmp_path / "a.autoq", jobs=2)
    assert (tmp_path / "a.autoq").exists()
