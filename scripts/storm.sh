#!/usr/bin/env bash
# Kills tuners, their workers and their compilers at random, and checks that nothing is lost, wrong
# or left over: scripts/storm.sh [--kills N] [--seed N] [--target cuda] [--folder FOLDER]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ -x .venv/bin/python ] || source scripts/environment.sh test,quantize
exec .venv/bin/python scripts/storm/storm.py "$@"
