"""Teams of blocks: each pair has one, whose blocks hold all of it and no more than fits them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from autoq.templates.cuda.sparse_attention.teams import Teams


@given(
    pairs=st.integers(1, 200),
    octets=st.integers(1, 1 << 17),
    blocks=st.integers(1, 200),
    threads=st.sampled_from([128, 256, 512]),
    room=st.integers(0, 230_000),
)
def test_shares_of_a_team_are_all_of_a_pair(
    pairs: int, octets: int, blocks: int, threads: int, room: int
) -> None:
    found = Teams(pairs, octets, blocks, threads, room)
    assert 0 < found.of_team <= pairs
    if not found.fits:
        return
    assert 0 < found.team <= 32 and found.blocks <= blocks
    assert (found.teams - 1) * found.of_team < pairs <= found.teams * found.of_team
    assert found.team * found.turns * threads >= 2 * octets
    assert found.smem_bytes <= room
    assert found.buffers == min(found.lag + 2, found.of_team) and found.lag < found.of_team
    assert found.buffers >= min(3, found.of_team)
    words = found.meeting.spec.shape[0]
    assert words == pairs * found.team + pairs + 1


def test_a_team_has_as_few_pairs_as_its_blocks_have_room_for() -> None:
    """Of 16 pairs of 8192 keys of 64 values four have 32 blocks of 64 KB each."""
    room = 3 * 65536
    found = Teams(16, 65536, 132, 512, room)
    assert (found.of_team, found.teams, found.team, found.turns) == (4, 4, 32, 8)
    assert found.lag == 1 and found.smem_bytes == room
    half = Teams(16, 32768, 132, 512, room)
    assert (half.of_team, half.team, half.turns, half.lag) == (1, 8, 16, 0)
    assert not Teams(16, 65536, 132, 512, room - 1).fits
    assert not Teams(16, 65536, 3, 512, room).fits
