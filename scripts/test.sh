#!/usr/bin/env bash
# Sets up the environment and runs the whole test suite, three files at a time; arguments go to pytest.
set -euo pipefail
# Hundreds of processes import autoq: its bytecode is kept, even where the environment says not to.
# That of packages is made for what is imported of them, two thirds of whose files never are: a false
# value is how pip is told --no-compile.
unset PYTHONDONTWRITEBYTECODE
export PIP_NO_COMPILE=0
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# pip leaves a core idle: it makes the bytecode of autoq, which every process would else make for
# itself, and compiles the emulator. What fails here fails again in the tests that want it.
{
  "${PYTHON:-python3}" -m compileall -q autoq search templates
  [ $# -gt 0 ] || (cd tests && "${PYTHON:-python3}" -c "from ptx.library import library; library()")
} >/dev/null 2>&1 &
source scripts/environment.sh test,quantize
wait
.venv/bin/ruff check .
.venv/bin/ruff format --check .
# numpy's threads wait for each other in loops, which takes time from the processes beside them.
export OPENBLAS_NUM_THREADS=1
# tests/longest.py puts the longest files first, so xdist must keep their order.
# One kernel cache for the whole suite: many tests compile the same kernels.
export AUTOQ_CACHE_DIR=${AUTOQ_CACHE_DIR:-$(mktemp -d)}
.venv/bin/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder "$@"
# Some fuzzing behind the whole suite; its cases are the first of a fixed seed.
[ $# -gt 0 ] || scripts/fuzz.sh 10
