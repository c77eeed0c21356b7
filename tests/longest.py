"""The test files that take longest, which go first, and what a run says of files that are missing.

A process that begins a long file when the others end leaves the cores idle.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent

LONGEST = (
    "ptx/test_templates.py",
    "templates/cuda/device/test_residual.py",
    "templates/test_template_contract.py",
    "templates/cpu/test_cpu_conv2d.py",
    "templates/cuda/pruned/test_picked_kernel.py",
    "templates/cuda/attention/test_attention_wgmma.py",
    "knowledge/test_knowledge.py",
    "cli/test_cli_process.py",
    "templates/cuda/pruned/test_every_pattern.py",
    "scripts/bench/searching/test_knowledge_benches.py",
    "test_tuner.py",
    "scripts/bench/searching/test_searching.py",
    "templates/cuda/mma_sync/test_batched_mma_sync.py",
    "networks/test_light_models.py",
    "search/test_strategy_contract.py",
    "templates/cpu/test_cpu_pruned.py",
    "measure/test_runner.py",
    "templates/cuda/wgmma/test_wgmma_last_columns.py",
    "templates/cuda/pruned/two_four/test_two_four_kernel.py",
    "templates/cuda/mixed/wgmma/test_mixed_compile.py",
    "scripts/test_ablation.py",
    "templates/cuda/batched/test_batched_wgmma.py",
    "templates/cuda/movement/test_movement.py",
    "templates/cuda/mixed/wgmma/test_mixed_emulated.py",
    "ptx/test_products.py",
    "templates/cuda/pruned/test_tile_two_four.py",
    "templates/cuda/sparse/test_long.py",
    "templates/cuda/mma_sync/test_mma_sync_build.py",
    "templates/cuda/sparse_attention/test_sparse_attention_fused.py",
    "graph/test_large_models.py",
    "templates/cuda/grouped/test_grouped.py",
    "quantization/test_four_bits.py",
    "templates/cuda/wgmma/test_wgmma_compile.py",
    "templates/cuda/wgmma/test_wgmma_tail.py",
    "recording/test_record_spaces.py",
    "templates/cuda/mma_sync/test_mma_sync_estimates.py",
    "scripts/bench/searching/test_predicted.py",
    "products/test_sparse_attention_from_python.py",
    "templates/cuda/pruned/test_tile_wise_kernel.py",
    "templates/cuda/pruned/two_four/test_two_four_mma_sync.py",
    "templates/cuda/device/test_quantise_panels.py",
    "templates/cuda/wgmma/test_weighing.py",
    "compilation/test_look_ahead.py",
    "templates/cuda/pruned/test_columns_kernel.py",
    "graph/test_random_graphs.py",
    "templates/cuda/wgmma/test_wgmma_sums.py",
    "scripts/bench/test_bench_conv.py",
    "templates/cpu/test_cpu_residual.py",
    "cli/test_cli_pruned_flow.py",
    "templates/cuda/simt/test_direct.py",
    "quantization/test_quantize.py",
    "graph/test_networks.py",
    "templates/cuda/mma_sync/test_mma_sync_tiling.py",
    "families/test_split_k.py",
)
"""Files that take some 7 CPU seconds and more, the longest first."""


def longest_first(items: list[pytest.Item]) -> None:
    """Sort tests by their files' places in LONGEST; the others keep their order behind."""
    places = {FOLDER / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


def file_seconds(reports: Iterable[object]) -> dict[str, float]:
    """How long the tests of each file took, by its path below this folder."""
    seconds: dict[str, float] = defaultdict(float)
    for report in reports:
        if isinstance(report, pytest.TestReport):
            file = report.nodeid.partition("::")[0]
            seconds[file.removeprefix(f"{FOLDER.name}/")] += report.duration
    return dict(seconds)


def unnamed(seconds: Mapping[str, float]) -> list[str]:
    """Files that LONGEST lacks although they take longer than most of those that it names.

    None where not all that it names ran: how long one takes depends on the machine.
    """
    if not seconds.keys() >= set(LONGEST):
        return []
    usual = statistics.median(seconds[name] for name in LONGEST)
    return sorted(name for name in seconds if name not in LONGEST and seconds[name] > usual)
