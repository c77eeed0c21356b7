"""The warpgroups of a warp-specialised block that multiply, and how they divide its tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autoq.templates.cuda.device.launch.registers import RegisterBudget, register_budget


class Team:
    """What a configuration says of its consumers; it has the knobs `team` and `blocks_per_unit`.

    team: begins with the number of warpgroups that multiply and whether they share a tile.
    """

    if TYPE_CHECKING:
        team: tuple[int, ...]
        blocks_per_unit: int

    @property
    def consumers(self) -> int:
        """Warpgroups that multiply."""
        return self.team[0]

    @property
    def cooperative(self) -> bool:
        """Whether the consumers share a tile; else they take turns with a tile each (ping-pong)."""
        return bool(self.team[1])

    @property
    def teams(self) -> int:
        """Tiles that a block's consumers work on at once."""
        return 1 if self.cooperative else self.consumers

    @property
    def registers(self) -> RegisterBudget:
        return register_budget(self.consumers, self.blocks_per_unit)
