"""Whether this host's CPU can run what it is asked to, such as an artifact of another host."""

from __future__ import annotations

from pathlib import Path

from autoq.errors import ArtifactError, TargetError
from autoq.runtime.plan import Plan


def host_features() -> frozenset[str]:
    """CPU features as the kernel names them, e.g. "avx512_vnni"; empty where unknown."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return frozenset()
    for line in text.splitlines():
        if line.startswith(("flags", "Features")):
            return frozenset(line.partition(":")[2].split())
    return frozenset()


def require_features(plan: Plan) -> None:
    """Raise ArtifactError when the plan needs features that this CPU does not have."""
    here = host_features()
    missing = [name for name in plan.cpu_features if name not in here]
    if here and missing:
        raise ArtifactError(
            f"compiled for {plan.arch}, which needs {', '.join(missing)}; this CPU lacks "
            "them: compile the model here"
        )


def require_no_gpu(ordinal: int) -> None:
    """Raise TargetError for the number of a GPU where the CPU is what runs; 0 names none."""
    if ordinal != 0:
        raise TargetError(f"device {ordinal} is the number of a GPU, but the target is the CPU")
