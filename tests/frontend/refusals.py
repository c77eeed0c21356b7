"""What the tests of refused models share."""

from __future__ import annotations

import onnx
import pytest

from autoq.errors import ModelError
from autoq.frontend import load


def saved(made: onnx.ModelProto, folder, **options) -> str:
    path = folder / "bad.onnx"
    onnx.save(made, path, **options)
    return str(path)


def assert_refused(path, pattern: str, kind=ModelError, shapes=None) -> None:
    with pytest.raises(kind, match=pattern) as caught:
        load(path, shapes)
    assert "\n" not in str(caught.value)
