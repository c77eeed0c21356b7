"""The loop over the reduction in kernels whose threads copy what they multiply, a step at a time.

By cp.async, `stages` - 1 steps are on their way into a ring while one is multiplied. Without it, a
step waits in registers while the one before it is multiplied, and then takes one of two stages.
"""

from tvm.script import tirx as T


@T.inline
def fetch_first(stages, steps, fetch):
    """Start the copies of the steps before the loop; fetch(step, stage) starts those of one."""
    for s in T.unroll(stages - 1):
        if s < steps:
            fetch(s, s)
        T.ptx.cp.async_.commit_group()


@T.inline
def fetch_ahead(stages, steps, step, fetch):
    """Start the copies of the step that takes the stage that the one before `step` has left."""
    if step + stages - 1 < steps:
        ahead = T.meta_var(step + stages - 1)
        fetch(ahead, ahead % stages)
    T.ptx.cp.async_.commit_group()


@T.inline
def multiply_from_ring(stages, steps, fetch, multiply):
    """All steps by cp.async; multiply(stage, step) computes with what has arrived of one."""
    fetch_first(stages, steps, fetch)
    for step in T.serial(steps, unroll=False):
        T.ptx.cp.async_.wait_group(stages - 2)
        T.cuda.cta_sync()
        fetch_ahead(stages, steps, step, fetch)
        multiply(step % stages, step)


@T.inline
def multiply_unpacked(stages, tile_stages, steps, fetch, unpack, multiply):
    """All steps by cp.async into a ring, whose steps unpack(step) turns into one of the tiles.

    A step is unpacked while the one before it is multiplied, into another of `tile_stages`.
    """
    fetch_first(stages, steps, fetch)
    T.ptx.cp.async_.wait_group(stages - 2)
    unpack(0)
    for step in T.serial(steps, unroll=False):
        T.cuda.cta_sync()
        fetch_ahead(stages, steps, step, fetch)
        multiply(step % tile_stages, step)
        T.ptx.cp.async_.wait_group(stages - 2)
        if step + 1 < steps:
            unpack(step + 1)


@T.inline
def multiply_from_registers(steps, fetch, keep, multiply):
    """All steps through registers, which fetch(step) fills and keep(stage) empties."""
    fetch(0)
    keep(0)
    T.cuda.cta_sync()
    for step in T.serial(steps, unroll=False):
        if step + 1 < steps:
            fetch(step + 1)
        multiply(step % 2, step)
        if step + 1 < steps:
            keep((step + 1) % 2)
        T.cuda.cta_sync()
