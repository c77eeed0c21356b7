"""Rules and features over arrays say of every template what they say of one configuration."""

from __future__ import annotations

import numpy as np
import pytest
from test_template_contract import CPU, WORKLOADS

from autoq.templates.registry import TEMPLATES
from autoq.templates.target import parse_target

TARGETS = [*(parse_target(f"cuda:{arch}") for arch in ("sm_80", "sm_90a")), CPU[0]]


def spaces(template):
    """Spaces of a template, of every workload that it takes; the targets that it has take turns."""
    for number, workload in enumerate(WORKLOADS):
        taken = [target for target in TARGETS if template.matches(workload, target)]
        if taken:
            yield workload, template.space(workload, taken[number % len(taken)])


@pytest.mark.parametrize("template", [t for t in TEMPLATES if t.tunable], ids=lambda t: t.name)
def test_arrays_agree_with_single_configurations(template):
    rng = np.random.default_rng(0)
    for workload, space in spaces(template):
        codes = rng.integers(0, space.size, 1500)
        some = codes[:200].tolist()
        legal = [all(rule(space.config(code)) for rule in space.constraints) for code in some]
        # Judged together, so that rules and features run over lanes where they can.
        assert space.legal_codes(codes)[:200].tolist() == legal, workload
        found = space.sample_codes(rng, 400)
        if not len(found) or space.derive is None:
            continue
        features = space.encode_codes(found)
        derived = [list(space.derive(space.config(code)).values()) for code in found[:60].tolist()]
        expected = np.array(derived, np.float64).astype(np.float32)
        expected[~np.isfinite(expected)] = np.nan
        columns = features[:60, -expected.shape[1] :]
        np.testing.assert_allclose(columns, expected, rtol=1e-6, err_msg=str(workload))
