"""`autoq prune`: what it prints, and the mistakes it is given."""

import re

import numpy as np
import onnx
import pytest

BAD = {
    "sparsity beyond 1": (("--sparsity", 1.2), ("sparsity 1.2", "0 to 1")),
    "no sparsity": ((), ("--sparsity",)),
    "sparsity in words": (("--sparsity", "half"), ("--sparsity",)),
    "unknown pattern": (("--sparsity", 0.5, "--pattern", "xw"), ("'xw'", "ew or vw or bw")),
    "granularity of 0": (("--sparsity", 0.5, "--granularity", 0), ("granularity 0", "1 or more")),
    "vw between": (("--sparsity", 0.6, "--pattern", "vw"), ("nearest is 0.5",)),
    "tvw below a half": (("--sparsity", 0.3, "--pattern", "tvw"), ("0.5 or more", "take tw")),
    "blocks too large": (
        ("--sparsity", 0.4, "--pattern", "bw", "--granularity", 512), ("comes to", "smaller"),
    ),
    "foreign option": (("--sparsity", 0.5, "--delta", 0.1), ("delta 0.1", "tew")),
    "delta too large": (
        ("--sparsity", 0.9, "--pattern", "tew", "--delta", 0.2), ("delta 0.2", "0.1 at most"),
    ),
    "no vector": (("--sparsity", 0.5, "--pattern", "tvw", "--vector", "4"), ("'4'", "2:4")),
    "no run": (("--sparsity", 0.5, "--pattern", "trw", "--run", 0), ("run 0", "1 or more")),
    "bounds in words": (("--sparsity", 0.5, "--bounds", "all"), ("'all'", "0.3:0.9")),
    "bounds too narrow": (("--sparsity", 0.9, "--bounds", "0:0.5"), ("allow 0 to 0.5",)),
    "bounds of no layer": (
        ("--sparsity", 0.5, "--layer-bounds", "head*=0.4:0.6"), ("'head*'", "conv, fc"),
    ),
    "bounds of layers without a pattern": (
        ("--sparsity", 0.5, "--layer-bounds", "0.4:0.6"), ("'0.4:0.6'", "*.attention.*"),
    ),
    "bounds of layers in words": (
        ("--sparsity", 0.5, "--layer-bounds", "fc=all"), ("'all'", "0.3:0.9"),
    ),
    "joint channels of single weights": (
        ("--sparsity", 0.5, "--pattern", "ew", "--joint-channels"), ("no columns", "tw and tvw"),
    ),
    "shared rows of single weights": (
        ("--sparsity", 0.5, "--pattern", "ew", "--shared-rows"), ("no tiles", "tw and tvw"),
    ),
    "more than all columns": (
        ("--sparsity", 0.5, "--joint-channels", "--columns", 1.2), ("columns 1.2", "from 0 to 1"),
    ),
    "columns that stay": (
        ("--sparsity", 0.5, "--columns", 1), ("columns 1", "joint channels"),
    ),
    "unknown node": (("--sparsity", 0.5, "--skip", "absent"), ("'absent'", "conv, fc")),
    "absent samples": (("--sparsity", 0.5, "--calibration", "a.npz"), ("a.npz",)),
    "absent gradients": (("--sparsity", 0.5, "--gradients", "a.npz"), ("a.npz",)),
    "unknown target": (("--sparsity", 0.5, "--target", "tpu"), ("'tpu'",)),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_prune_refuses(refuses, float_model, case):
    arguments, words = BAD[case]
    refuses("prune", float_model, "-o", "new.onnx", *arguments, words=words)


def test_outputs_that_no_one_wants(refuses, float_model, folder):
    before = float_model.read_bytes()
    some = ("--sparsity", 0.5)
    refuses("prune", float_model, *some, "-o", float_model, words=("which is read",))
    assert float_model.read_bytes() == before
    refuses("prune", float_model, *some, "-o", "absent/x", words=("absent",))
    np.savez("g.npz", **{"conv.weight": np.ones((3, 3)), "fc.weight": np.ones((10, 32))})
    words = ("'conv.weight' is [3, 3]", "[32, 16, 3, 3]")
    refuses("prune", float_model, *some, "-o", "x", "--gradients", "g.npz", words=words)


@pytest.mark.parametrize("fixture", ["float_model", "model"])
def test_prune_reports_layers_and_writes_the_model(autoq, folder, request, fixture):
    model = request.getfixturevalue(fixture)
    options = ("--pattern", "tvw", "--granularity", 8, "--sparsity", 0.9, "--bounds", "0.5:0.95")
    screen = autoq("prune", model, "-o", "out.onnx", *options)
    assert screen.code == 0 and screen.err == "", screen
    names = re.findall(r"^(conv|fc) ", screen.out, re.MULTILINE)
    assert names == ["conv", "fc"]
    assert re.search(r"pruned (89|90)\.\d\d% of 4,928 weights in 2 layers", screen.out)
    assert (
        "estimates for sm_90a and kernels that skip zeros, not measured" in screen.out
        and "us pruned" in screen.out
    )
    assert screen.out.endswith("wrote out.onnx\n")
    channels = int(re.search(r"left out: (\d+) channels that are constant", screen.out)[1])
    shapes = [list(tensor.dims) for tensor in onnx.load("out.onnx").graph.initializer]
    assert channels > 0 and [32 - channels, 16, 3, 3] in shapes
    kept = autoq("prune", model, "-o", "out.onnx", *options, "--keep-channels")
    assert kept.code == 0 and "constant" not in kept.out
    onnx.checker.check_model(onnx.load("out.onnx"), full_check=True)
    skipped = autoq("prune", model, "-o", "o.onnx", "--sparsity", 0.5, "--skip", "fc")
    assert "left as they are: 1 skipped" in skipped.out


def test_help_lists_every_pattern():
    from autoq.cli.prune import PATTERNS
    from autoq.pruning.pattern import KINDS

    assert tuple(KINDS) == PATTERNS
