"""The warpgroups of a warp-specialised block that multiply, and how they divide its tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from autoq.templates.cuda.device.launch.registers import RegisterBudget, register_budget


@dataclass(frozen=True)
class Team:
    """The warpgroups of a block that multiply.

    consumers: how many; cooperative: whether they share a tile, or else take turns with a tile each
    (ping-pong).
    """

    consumers: int
    cooperative: bool

    @property
    def tiles(self) -> int:
        """Tiles that they work on at once."""
        return 1 if self.cooperative else self.consumers


class WarpSpecialised:
    """What a configuration says of its consumers; it has the knobs `team` and `blocks_per_unit`."""

    if TYPE_CHECKING:
        team: Team
        blocks_per_unit: int

    @property
    def consumers(self) -> int:
        """Warpgroups that multiply."""
        return self.team.consumers

    @property
    def cooperative(self) -> bool:
        """Whether the consumers share a tile."""
        return self.team.cooperative

    @property
    def teams(self) -> int:
        """Tiles that a block's consumers work on at once."""
        return self.team.tiles

    @property
    def registers(self) -> RegisterBudget:
        return register_budget(self.consumers, self.blocks_per_unit)
