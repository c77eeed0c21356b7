"""Which pieces of work a block of the wgmma pipeline takes, and which of them a consumer."""

from tvm.script import tirx as T

from autoq.templates.cuda.device.launch.walk import StreamWalk, TileWalk


def walk_of(plan, team=0, teams=1):
    """The walk of a block's producers, or of one of its teams, whose tiles are `teams` apart.

    A team that shares tiles out walks all pieces and passes over those of others.
    """
    if plan.config.stream_k:
        return StreamWalk(plan, plan.grid)
    return TileWalk(plan, plan.grid, team, teams)


@T.inline
def pass_over(walk, tail, pieces):
    """Consumer: leave so many pieces and their stages to others."""
    for _ in T.serial(pieces):
        if walk.more:
            tail.skip(walk.portions)
            walk.advance()
