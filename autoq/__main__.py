"""`autoq` and `python -m autoq`: the command line in a process of its own."""

from autoq.process.lean_imports import leave_out_symbols, leave_out_unused

leave_out_unused()
leave_out_symbols()

from autoq.cli import main  # noqa: E402 - imports TVM

if __name__ == "__main__":
    main()
