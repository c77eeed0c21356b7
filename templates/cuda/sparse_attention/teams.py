"""Teams of blocks that quantise the keys and values of a few pairs together, and hold them."""

from __future__ import annotations

from dataclasses import dataclass

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.program import Initially, Workspace
from autoq.templates.target import Target

_LANES = 32
"""Blocks of a team at most: one lane of a warp waits for each."""
_OCTET_BYTES = 16
"""Eight values of 16 bits."""
_BUFFERS = 3
"""Of a pair that becomes bytes, one that is measured and one on its way."""
_MOST_TURNS = 16
"""Of a thread's octets of a pair, of whose places each takes a register."""


_BULK_CAPABILITY = 90


def copies_in_bulk(target: Target) -> bool:
    """Whether a slot of keys comes by one bulk copy, and a share of a pair by two."""
    return target.compute_capability >= _BULK_CAPABILITY


@dataclass(frozen=True)
class Teams:
    """How blocks share keys and values.

    pairs: how many there are; octets: of the keys of a pair, with those behind the last one.
    most_blocks: as many as run at once; threads: of each; room_bytes: of shared memory of each.
    """

    pairs: int
    octets: int
    most_blocks: int
    threads: int
    room_bytes: int

    @property
    def of_team(self) -> int:
        """Pairs of a team: as few as let blocks hold their shares of three of them."""
        each = range(1, self.pairs + 1)
        return next((n for n in each if self._holds(n)), self.pairs)

    def _holds(self, of_team: int) -> bool:
        team = self._team(of_team)
        if team == 0 or self._turns(team) > _MOST_TURNS:
            return False
        return min(_BUFFERS, of_team) * self._buffer_bytes(team) <= self.room_bytes

    def _team(self, of_team: int) -> int:
        """Blocks of a team of so many pairs."""
        return min(_LANES, self.most_blocks // -(-self.pairs // of_team))

    def _turns(self, team: int) -> int:
        return -(-2 * -(-self.octets // team) // self.threads)

    def _buffer_bytes(self, team: int) -> int:
        """Of a share of a pair."""
        return self._turns(team) * self.threads * _OCTET_BYTES

    @property
    def teams(self) -> int:
        return -(-self.pairs // self.of_team)

    @property
    def team(self) -> int:
        """Blocks of a team."""
        return self._team(self.of_team)

    @property
    def blocks(self) -> int:
        """Of all teams."""
        return self.teams * self.team

    @property
    def turns(self) -> int:
        """Octets of a thread and pair, of keys and of values."""
        return self._turns(self.team)

    @property
    def lag(self) -> int:
        """Pairs that are measured while a team meets for one."""
        room = self.room_bytes // self._buffer_bytes(self.team)
        return max(0, min(self.of_team - 1, room - _BUFFERS + 1))

    @property
    def buffers(self) -> int:
        """Pairs of which a block holds its shares at once."""
        return min(self.of_team, self.lag + _BUFFERS - 1)

    @property
    def smem_bytes(self) -> int:
        """Of all buffers."""
        return self.buffers * self._buffer_bytes(self.team)

    @property
    def found_bytes(self) -> int:
        """Shared memory for what warps find of those pairs, and the team of one; for barriers."""
        words = self.buffers * self.threads // 32 + 1
        return 8 * (-(-words // 2) + self.buffers)

    @property
    def fits(self) -> bool:
        """Whether blocks hold their shares of as many pairs as they have to at once."""
        return self._holds(self.of_team)

    @property
    def meeting(self) -> Workspace:
        """Of each pair a word of each block, then counts of each pair and of all."""
        words = self.pairs * (self.team + 1) + 1
        return Workspace(TensorSpec("meeting", (words,), "uint32"), Initially.STAYS_ZERO)

    @property
    def constants(self) -> dict[str, int]:
        """What `team_source` asks for."""
        return {
            "PAIRS": self.pairs, "TEAM": self.team, "OF_TEAM": self.of_team, "TEAMS": self.teams,
            "TURNS": self.turns, "LAG": self.lag, "BUFFERS": self.buffers,
        }  # fmt: skip
