"""`python -m autoq`: the command line."""

from autoq.cli import main

main()
