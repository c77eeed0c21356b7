"""The loop over the reduction of a batched product on mma.sync."""

from tvm.script import tirx as T


@T.inline
def multiply_all(plan, fetch, keep, multiply):
    """All steps; multiply(step, last) computes with what has arrived of one.

    fetch(step, stage) starts the copies of a step, and keep(step) ends those that wait in
    registers. Where rows of x arrive verbatim the last step stands behind the loop, since what
    lies behind k in its rows is no zero.
    """
    stages = T.meta_var(plan.config.stages)
    for s in T.unroll(stages - 1):
        if s < plan.steps:
            fetch(s, s)
        keep(s)
        if plan.asynchronous:
            T.ptx.cp.async_.commit_group()
    for step in T.serial(plan.steps - 1 if plan.config.verbatim else plan.steps, unroll=False):
        ahead = T.meta_var(step + stages - 1)
        if plan.asynchronous:
            T.ptx.cp.async_.wait_group(stages - 2)
        T.cuda.cta_sync()
        if ahead < plan.steps:
            fetch(ahead, ahead % stages)
        if plan.asynchronous:
            T.ptx.cp.async_.commit_group()
        multiply(step, False)
        keep(ahead)
    if plan.config.verbatim:
        T.ptx.cp.async_.wait_group(0)
        T.cuda.cta_sync()
        multiply(plan.steps - 1, True)
