"""Weights in files of their own: read where they are, refused in one line otherwise."""

from __future__ import annotations

import os

import numpy as np
import onnx
import pytest
from onnx_models.operators import conv
from refusals import assert_refused, saved

from autoq.frontend import load


class TestExternalData:
    @pytest.fixture
    def path(self, tmp_path):
        made = conv((8, 6, 3, 3))
        options = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 0}
        return saved(made, tmp_path, **options)

    def test_is_loaded(self, path):
        weights = [c for c in load(path).constants.values() if c.shape == (8, 6, 3, 3)]
        assert len(weights) == 1 and np.ptp(weights[0]) > 0

    def test_missing(self, path, tmp_path):
        os.unlink(tmp_path / "weights.bin")
        assert_refused(path, r"external data 'weights\.bin' of 'w' is missing")

    def test_truncated(self, path, tmp_path):
        os.truncate(tmp_path / "weights.bin", 100)
        assert_refused(path, r"bad\.onnx.*'w'")

    @pytest.mark.parametrize("location", ["../weights.bin", "/etc/hostname", "a/../../b"])
    def test_outside(self, path, location, tmp_path):
        made = onnx.load(path, load_external_data=False)
        for tensor in made.graph.initializer:
            for entry in tensor.external_data:
                if entry.key == "location":
                    entry.value = location
        (tmp_path / "bad.onnx").write_bytes(made.SerializeToString())
        assert_refused(path, "outside the model's folder")

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("offset", "-1"), ("offset", "99999999"), ("offset", "many"), ("offset", str(2**70)),
            ("length", "-4"), ("length", "99999999"), ("length", "4"), ("length", str(2**70)),
            ("location", "wei\0ghts.bin"), ("location", ""), ("location", "."),
            ("location", "w" * 5000),
        ],
    )  # fmt: skip
    def test_bad_entry(self, path, key, value, tmp_path):
        made = onnx.load(path, load_external_data=False)
        for tensor in made.graph.initializer:
            kept = [entry for entry in tensor.external_data if entry.key != key]
            kept.append(onnx.StringStringEntryProto(key=key, value=value))
            del tensor.external_data[:]
            tensor.external_data.extend(kept)
        (tmp_path / "bad.onnx").write_bytes(made.SerializeToString())
        assert_refused(path, r"bad\.onnx: .*'[wb]'")

    def test_link_to_the_outside(self, path, tmp_path_factory, tmp_path):
        elsewhere = tmp_path_factory.mktemp("elsewhere") / "weights.bin"
        (tmp_path / "weights.bin").rename(elsewhere)
        (tmp_path / "weights.bin").symlink_to(elsewhere)
        assert_refused(path, "outside the model's folder")
