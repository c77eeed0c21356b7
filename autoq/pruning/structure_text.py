"""A pruned matrix in a few words."""

from __future__ import annotations

from autoq.templates.sparse.pruned_matrix import Blocks, Elements, Pruned, Vectors


def structure_text(structure: Pruned) -> str:
    """What of a matrix is left: "3 tiles of 9 to 40 rows, 2:4"."""
    match structure:
        case Elements():
            return "single weights"
        case Vectors():
            return f"{structure.vector} vectors"
        case Blocks():
            return f"{int(structure.kept.sum())} of {structure.kept.size} blocks"
    rows = [len(tile.rows) for tile in structure.tiles]
    if not rows:
        return "nothing"
    extent = f"{min(rows)}" if min(rows) == max(rows) else f"{min(rows)} to {max(rows)}"
    text = f"{len(structure.columns)} columns, tiles of {extent} rows"
    if structure.vector is not None:
        text += f", {structure.vector}"
    if structure.remainder is not None:
        text += f", {int(structure.remainder.sum())} weights beside"
    return text
