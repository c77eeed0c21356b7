#!/usr/bin/env bash
# Fuzzes autoq for SECONDS and exits with 1 on findings: scripts/fuzz.sh SECONDS [--seed N]
# [--subject NAME] [--cases N] [--jobs N]. One case in the open: --subject NAME --seed N --case K.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ -x .venv/bin/python ] || source scripts/environment.sh test,quantize
PYTHONPATH=tests exec .venv/bin/python -m fuzz.run "$@"
