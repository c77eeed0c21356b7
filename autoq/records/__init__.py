"""Tuning records: what every measured candidate took, one JSON object a line."""

from __future__ import annotations

from autoq.records.database import Database, Found
from autoq.records.journal import Journal
from autoq.records.lines import Lines, read_records
from autoq.records.lookup import Choice, lookup
from autoq.records.record import Device, Record

__all__ = [
    "Choice",
    "Database",
    "Device",
    "Found",
    "Journal",
    "Lines",
    "Record",
    "lookup",
    "read_records",
]
