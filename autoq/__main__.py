"""`autoq` and `python -m autoq`: the command line in a process of its own."""

from autoq.process.early_interrupt import ending_on_interrupt
from autoq.process.lean_imports import leave_out_symbols, leave_out_unused

with ending_on_interrupt():
    leave_out_unused()
    leave_out_symbols()
    from autoq.cli import main  # imports TVM

if __name__ == "__main__":
    main()
