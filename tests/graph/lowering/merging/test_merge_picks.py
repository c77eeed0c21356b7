"""Products that need some channels of centred rows read those alone, and give what they gave."""

from __future__ import annotations

import math

import numpy as np
import pytest
from gpu_kernels import OPTIONS, end_if_compile_only, gpu_host
from onnx_models.makers import model, node
from optimised_models import pair
from qdq.oracle import Oracle, normal_feeds

from autoq import Session, compile
from autoq.frontend import from_model
from autoq.graph import Fusion, Layer, evaluate, optimise
from autoq.templates.target import parse_target

HOPPER, CPU = parse_target("cuda:sm_90a"), parse_target("cpu")
ROWS, WIDTH = 24, 128
KINDS = ("dense", "shared", "shared", "other", "tiles", "nothing")
"""Which channels a weight needs: all, those of a set that others need too, some of its own, other
ones for each tile, or none."""


def needed(kind: str, columns: int, shared: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """bool [WIDTH, columns]: the weights that are not zero."""
    if kind == "tiles":
        own = rng.random((WIDTH, columns // 16)) < 0.5
        return np.repeat(own, 16, axis=1)
    rows = {
        "dense": np.ones(WIDTH, bool), "shared": shared, "nothing": np.zeros(WIDTH, bool),
        "other": rng.random(WIDTH) < 0.2,
    }[kind]  # fmt: skip
    return np.repeat(rows[:, None], columns, axis=1)


def random_model(seed: int):
    """Rows are centred twice, with products behind each, and what each weight of them needs."""
    rng = np.random.default_rng(seed)
    constants = {"s": np.float32(0.03), "z": np.uint8(rng.integers(256)), "w": np.float32(0.004),
                 "v": np.int8(0)}  # fmt: skip
    nodes, outputs, masks = pair("x", "h0"), [], []
    for part in range(2):
        front = f"h{part}"
        for name in "gb":
            constants[f"{name}{part}"] = rng.normal(1, 0.3, WIDTH).astype(np.float32)
        constants |= {f"n{part}": np.float32(rng.uniform(0.01, 0.04)),
                      f"m{part}": np.uint8(rng.integers(100, 156))}  # fmt: skip
        nodes += [node("ReduceMean", front, f"e{part}", axes=[-1]),
                  node("Sub", f"{front} e{part}", f"t{part}"),
                  node("Mul", f"t{part} g{part}", f"u{part}"),
                  node("Add", f"u{part} b{part}", f"l{part}"),
                  *pair(f"l{part}", f"d{part}", f"n{part}", f"m{part}")]  # fmt: skip
        shared, own = rng.random(WIDTH) < rng.uniform(0.3, 0.95), []
        for number in range(int(rng.integers(1, 5))):
            key, columns = f"{part}{number}", int(rng.choice([64, WIDTH]))
            kind = str(rng.choice(KINDS))
            own.append(needed(kind, columns, shared, rng))
            whole = rng.integers(1, 128, (WIDTH, columns)) * rng.choice([-1, 1], (WIDTH, columns))
            constants[f"w{key}"] = np.where(own[-1], whole, 0).astype(np.int8)
            constants[f"c{key}"] = rng.normal(size=columns).astype(np.float32)
            constants |= {f"s{key}": np.float32(rng.uniform(0.02, 0.2)),
                          f"z{key}": np.uint8(rng.integers(256))}  # fmt: skip
            nodes += [node("DequantizeLinear", f"w{key} w v", f"f{key}"),
                      node("MatMul", f"d{part} f{key}", f"p{key}"),
                      node("Add", f"p{key} c{key}", f"a{key}")]  # fmt: skip
            last = f"a{key}"
            if columns == WIDTH and rng.random() < 0.5:
                nodes.append(node("Add", f"{last} {front}", f"r{key}"))
                last = f"r{key}"
            nodes += pair(last, f"y{key}", f"s{key}", f"z{key}")
            outputs.append(f"y{key}")
        masks.append(own)
        outputs += [f"d{part}"] if rng.random() < 0.3 else []
        nodes += pair(f"d{part}", "h1") if part == 0 else []
    return model(nodes, {"x": ((ROWS, WIDTH), "float32")}, constants, tuple(outputs)), masks


def picked_channels(masks) -> int:
    """How many channels products read of centred rows, none if they are not picked."""
    rows = [mask.any(axis=1) for mask in masks]
    sparse = [one for one in rows if one.sum() <= 0.9 * WIDTH]
    count = math.ceil(np.any(sparse, axis=0).sum() / 32) * 32 if sparse else 0
    return count if count <= 0.9 * WIDTH else 0


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs_are_onnxruntimes(seed):
    made, masks = random_model(seed)
    oracle_feeds = normal_feeds(made, np.random.default_rng(seed))
    oracle = Oracle(made, oracle_feeds)
    for target in (HOPPER, CPU):
        graph = optimise(from_model(made), target)
        assert not oracle.complaint(evaluate(graph, oracle_feeds))
        found = [n.picked for n in graph.nodes if isinstance(n, Fusion) and n.picked is not None]
        expected = [count for count in map(picked_channels, masks) if count]
        assert [len(one.places) for one in found] == (expected if target is HOPPER else [])
        readers = graph.consumers()
        for one in found:
            assert readers[one.output]
            for layer in readers[one.output]:
                assert isinstance(layer, Layer) and layer.workload.inputs[0].shape[-1] == len(
                    one.places
                )


def test_some_graphs_have_all_there_is():
    """The cases of the test above are no empty ones."""
    counts = [picked_channels(own) for seed in range(20) for own in random_model(seed)[1]]
    assert {0, 32, 64, 96} <= {*counts}


@pytest.mark.gpu
@pytest.mark.parametrize("seed", [3, 10])
def test_a_gpu_gives_what_onnxruntime_gives(seed, tmp_path):
    made, masks = random_model(seed)
    assert any(map(picked_channels, masks))
    feeds = normal_feeds(made, np.random.default_rng(seed))
    cache = OPTIONS.folder or tmp_path / "kernels"
    compile(from_model(made), target=gpu_host(), output=tmp_path / "picks.tar", cache_dir=cache)
    end_if_compile_only()
    found = Session(tmp_path / "picks.tar").run(None, feeds)
    names = [value.name for value in made.graph.output]
    assert not Oracle(made, feeds).complaint(dict(zip(names, found, strict=True)))
