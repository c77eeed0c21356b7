"""Which bias of the border table an output pixel takes, as expressions of a kernel."""

from __future__ import annotations

from typing import Any

from tvm.script import tirx as T

from autoq.templates.borders.classes import BorderClasses


def border_class(classes: BorderClasses, position: Any) -> Any:
    """Class of an output row or column, `BorderClasses.of` without a branch.

    Positions past the image, of a tile that overhangs it, take the last class.
    """
    if classes.count == 1:
        return 0
    first_of_tail = classes.extent - classes.tail
    into_tail = T.max(position - first_of_tail + 1, 0)
    return T.min(position, classes.head) + T.min(into_tail, classes.tail)


def bias_row(rows: BorderClasses, columns: BorderClasses, p: Any, q: Any) -> Any:
    """Row of the bias table [row classes * column classes, k] for output pixel (p, q)."""
    return border_class(rows, p) * columns.count + border_class(columns, q)
