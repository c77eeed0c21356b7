"""The untuned configuration is the least estimate of what is tried, one configuration at a time."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from autoq.measure.job import REGISTRY, load_registry
from autoq.templates.cuda.device.launch.input_once import default_input_once
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.cuda.wgmma import default as chosen
from autoq.templates.cuda.wgmma.cost import rows_are_cut, untuned_seconds
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.shared.shared_gemm import SharedGemm
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
CASES = {
    "gemm_wgmma": Gemm(1024, 512, 768, epilogue=Epilogue("int8")),
    "conv2d_im2col": Conv2d(8, 28, 28, 128, 256, 3, 3, (2, 2), (1,) * 4, in_dtype="uint8",
                            epilogue=Epilogue("uint8", residual_dtype="uint8")),
    "conv2d_tap": Conv2d(1, 14, 14, 64, 96, 3, 3, padding=(1,) * 4, in_dtype="uint8",
                         epilogue=Epilogue("uint8")),
}  # fmt: skip


def one_at_a_time(problem, space, default):
    """The same choice by asking about every candidate alone."""
    tried = {name: space.knobs[name] for name in space.knobs if name in chosen._TRIED}
    tried["block_n"] = [n for n in tried["block_n"] if n not in chosen._SEARCHED]
    best = None
    depths = [n for n in sorted(space.knobs["stages"], reverse=True) if n <= chosen._MOST_STAGES]
    for values in itertools.product(*tried.values()):
        for stages in depths:
            one = dataclasses.replace(
                default, **dict(zip(tried, values, strict=True)), stages=stages, input_once=False
            )
            ahead = space.knobs["residual_ahead"][0] and one.block_n % 64 == 0
            one = dataclasses.replace(
                one, residual_ahead=ahead, most_channels=space.knobs["most_channels"][0]
            )
            if not one.bounds_channels:
                one = dataclasses.replace(one, most_channels=chosen.MOST_CHANNELS)
            if chosen._is_small(one) and space.legal(one):
                if not one.weights_stay or chosen._staying_pays(problem, one):
                    key = untuned_seconds(problem, one), one.block_m * one.block_n
                    if best is None or key < best[0]:
                        best = key, one
                break
    return dataclasses.replace(best[1], input_once=default_input_once(problem.workload))


@pytest.mark.parametrize("name", CASES)
def test_the_default_is_the_least_estimate_of_single_candidates(monkeypatch, name):
    template, workload = load_registry(REGISTRY)[name], CASES[name]
    problems = []
    candidates = chosen._candidates

    def kept(problem, space):
        problems.append(problem)
        return candidates(problem, space)

    monkeypatch.setattr(chosen, "_candidates", kept)
    default = template.default(workload, TARGET)
    space = template.space(workload, TARGET)
    assert space.legal(default)
    assert one_at_a_time(problems[0], space, default) == default


@pytest.mark.parametrize("residual", [None, "uint8"])
@pytest.mark.parametrize(("channels", "width"), [(32, 240), (64, 496), (256, 1936), (32, 144)])
def test_untuned_threads_store_whole_sectors_of_odd_widths(channels, width, residual):
    """Tiles of 48 columns fill rows of 240 best, and take two to three times as long."""
    epilogue = Epilogue("uint8", residual, residual is not None)
    work = Conv2d(128, 28, 28, channels, width, 1, 1, in_dtype="uint8", epilogue=epilogue)
    config = load_registry(REGISTRY)["gemm_wgmma"].default(work, TARGET)
    assert config.channels >= 8
    assert config.residual_ahead or not residual
    assert rows_are_cut(work)


def test_rows_are_cut_where_they_are_no_whole_sectors():
    def cut(width, dtype):
        return rows_are_cut(Gemm(64, width, 64, epilogue=Epilogue(dtype)).as_conv2d())

    assert cut(240, "int8") and cut(8, "float16") and cut(1001, "float32")
    assert not (cut(256, "int8") or cut(240, "float16") or cut(8, "float32"))


@pytest.mark.parametrize("n", [192, 320])
def test_tiles_of_each_of_several_products_are_counted(n):
    """128 columns would be one round of all columns together, and a few tiles more of each."""
    workload = SharedGemm(3, 3072, n, 768, "uint8", "int8", Epilogue("uint8"))
    config = load_registry(REGISTRY)["shared_gemm_wgmma"].default(workload, TARGET)
    tiles = ceil_div(3072, config.block_m) * 3 * ceil_div(n, config.block_n)
    rounds = tiles / (TARGET.units * config.teams * config.blocks_per_unit)
    assert rounds <= 1 or rounds > 1.5
