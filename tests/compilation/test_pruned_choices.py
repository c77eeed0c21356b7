"""What compile takes for a layer that knows its weight's zeros: what is recorded as faster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from autoq.compilation.selection import PREDICTED, Chosen, choose
from autoq.devices import Host
from autoq.knowledge.choice import Prediction
from autoq.knowledge.model import KnowledgeModel
from autoq.knowledge.shipped import shipped_models
from autoq.records import Database, Device, Record
from autoq.records.database import SHIPPED
from autoq.records.lines import Lines
from autoq.search.knobs import plain_config
from autoq.search.union import Candidate
from autoq.templates import TEMPLATES
from autoq.templates.operators.gemm import Gemm
from autoq.templates.registry import matching
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.sparse.structure import Structure
from autoq.templates.target import Target, parse_target
from autoq.templates.workload import Workload

TARGET = parse_target("cuda:sm_90a")
CARD = Device("NVIDIA H200", "sm_90a")
PRUNED = Gemm(256, 512, 256, sparsity=Sparsity("tw", 128, 256, Structure(384, 192, 224)))


def _record(workload: Workload, name: str, seconds: float, device: Device = CARD) -> Record:
    (template,) = (one for one in matching(PRUNED, TARGET) if one.name == name)
    return Record(
        workload=workload, template=name, template_version=template.version,
        config=plain_config(template.default(workload, TARGET)), device=device,
        time="2026-01-01T00:00:00Z", seconds=seconds, repeats=3,
    )  # fmt: skip


def _chosen(*records: Record) -> str:
    database = Database([Lines("records.jsonl", records, (), False)])
    chosen = choose(PRUNED, Host(TARGET, CARD.name), database, TEMPLATES)
    assert chosen is not None and chosen.source == "records.jsonl"
    return chosen.template.name


@pytest.mark.parametrize(
    ("tiles", "dense", "expected"),
    [(2e-6, 1e-6, "gemm_wgmma"), (1e-6, 2e-6, "gemm_tile_wise"), (None, 1e-6, "gemm_wgmma"),
     (1e-6, None, "gemm_tile_wise")],
)  # fmt: skip
def test_the_faster_of_both_records_decides(
    tiles: float | None, dense: float | None, expected: str
) -> None:
    records = [
        *([_record(PRUNED, "gemm_tile_wise", tiles)] if tiles else []),
        *([_record(PRUNED.dense, "gemm_wgmma", dense)] if dense else []),
    ]
    assert _chosen(*records) == expected


@pytest.mark.parametrize(
    ("own", "tiles", "dense", "expected"),
    [
        (None, 1e-6, 2e-6, "gemm_tile_wise"), (None, 2e-6, 1e-6, "gemm_wgmma"),
        (1e-6, 2e-6, 3e-6, "gemm_tile_picked"), (3e-6, 2e-6, None, "gemm_tile_wise"),
    ],
)  # fmt: skip
def test_records_of_tiles_serve_those_that_are_2_4_inside(
    own: float | None, tiles: float, dense: float | None, expected: str
) -> None:
    """Of what is recorded of the weight's class, of its tiles alone and of no zeros the fastest."""
    known = Sparsity("tvw", 128, 256, Structure(384, 192, 224), Structure(96, 48, 56))
    inside = replace(PRUNED, sparsity=known)
    assert inside.knowing_less == (PRUNED, PRUNED.dense)
    records = [
        *([_record(inside, "gemm_tile_picked", own)] if own else []),
        _record(PRUNED, "gemm_tile_wise", tiles),
        *([_record(PRUNED.dense, "gemm_wgmma", dense)] if dense else []),
    ]
    database = Database([Lines("records.jsonl", records, (), False)])
    chosen = choose(inside, Host(TARGET, CARD.name), database, TEMPLATES)
    assert chosen is not None and chosen.template.name == expected


def test_times_of_different_devices_are_not_compared() -> None:
    other = Device("NVIDIA H100 80GB HBM3", "sm_90a")
    database = Database(
        [
            Lines(f"{SHIPPED}h100/a.jsonl", [_record(PRUNED.dense, "gemm_wgmma", 1e-6, other)],
                  (), False),
            Lines("mine.jsonl", [_record(PRUNED, "gemm_tile_wise", 2e-6)], (), False),
        ]
    )  # fmt: skip
    chosen = choose(PRUNED, Host(TARGET, CARD.name), database, TEMPLATES)
    assert chosen is not None and chosen.template.name == "gemm_tile_wise"


def test_a_model_is_asked_what_it_makes_of_a_record_that_knows_no_zeros() -> None:
    """Three quarters of this weight are zero, which its dense record knows nothing of."""
    few = Sparsity("tw", 128, 1024, Structure(8192, 1024, 1536))
    pruned = Gemm(4096, 4096, 4096, sparsity=few)
    dense = _record(pruned.dense, "gemm_wgmma", 85e-6)
    alone = Database([Lines("records.jsonl", [dense], (), False)])
    host = Host(TARGET, CARD.name)

    def chosen(database: Database, models: Sequence[KnowledgeModel]) -> Chosen:
        found = choose(pruned, host, database, TEMPLATES, models)
        assert found is not None
        return found

    found = chosen(alone, shipped_models())
    assert found.source == PREDICTED and found.template.name != "gemm_wgmma"
    # Nobody is asked without a model, by one that does not decide, or of a workload's own record.
    silent = [model.but(decides={}) for model in shipped_models()]
    for models in ((), silent):
        found = chosen(alone, models)
        assert (found.source, found.template.name) == ("records.jsonl", "gemm_wgmma")
    own = _record(pruned, "gemm_tile_wise", 90e-6)
    both = Database([Lines("records.jsonl", [dense, own], (), False)])
    assert chosen(both, shipped_models()).template.name == "gemm_wgmma"


@pytest.mark.parametrize("promised, source", [(0.02, "records.jsonl"), (0.05, PREDICTED)])
def test_a_slight_promise_over_a_record_is_not_taken(
    promised: float, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dense = _record(PRUNED.dense, "gemm_wgmma", 85e-6)
    alone = Database([Lines("records.jsonl", [dense], (), False)])
    by_name = {one.name: one for one in matching(PRUNED, TARGET)}
    wise = by_name["gemm_tile_wise"]

    def predicted(
        model: KnowledgeModel,
        workload: Workload,
        templates: object,
        target: Target,
        over: Candidate,
    ) -> list[Prediction]:
        recorded = Prediction(by_name[over.template], over.config, promised)
        return [Prediction(wise, wise.default(workload, target), 0.0), recorded]

    monkeypatch.setattr("autoq.compilation.selection.predicted", predicted)
    found = choose(PRUNED, Host(TARGET, CARD.name), alone, TEMPLATES, shipped_models())
    assert found is not None and found.source == source
