"""Names of the files of a workload."""

from __future__ import annotations

import hashlib
import re

from autoq.templates.workload import Workload
from autoq.templates.workload_key import key

_LONGEST = 60


def file_name(workload: Workload) -> str:
    """A name that says what the workload is and that no other workload has, without a suffix."""
    text = re.sub(r"[^a-z0-9]+", "-", str(workload).lower()).strip("-")[:_LONGEST].strip("-")
    digest = hashlib.sha256(key(workload).encode()).hexdigest()[:6]
    return f"{workload.operator}-{text}-{digest}"
