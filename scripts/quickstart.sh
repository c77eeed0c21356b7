#!/usr/bin/env bash
# From nothing to a tuned int8 ResNet-18: sets up .venv, quantises, tunes, compiles, runs and
# compares with onnxruntime, on the CUDA GPU here or else on this CPU. At most six minutes.
# Usage: scripts/quickstart.sh [SECONDS]      SECONDS: how long to tune (default 100)
set -euo pipefail
tuning_seconds=${1:-100}
[[ $tuning_seconds =~ ^[1-9][0-9]*$ ]] || {
  echo "usage: scripts/quickstart.sh [SECONDS]; found ${tuning_seconds@Q}" >&2
  exit 2
}
started=$SECONDS
step() { printf '\n== %s (%d s since the start)\n' "$1" $((SECONDS - started)); }

step "set up .venv"
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh" quantize
folder=build/quickstart
records=$folder/resnet18.jsonl
artifact=$folder/resnet18.tar
autoq=.venv/bin/autoq
$autoq env

step "write an int8 ResNet-18 for 224x224 images"
model=$(.venv/bin/python scripts/make_model.py resnet18 --image 224 --folder $folder)
echo "$model"

step "tune for $tuning_seconds s"
$autoq tune "$model" --target auto --trials 2000 --time-budget "$tuning_seconds" -o $records

step "compile"
$autoq compile "$model" --target auto --tuning-records $records -o $artifact

step "run, with the time of every layer"
$autoq run $artifact --print-time --profile

step "compare with onnxruntime"
.venv/bin/python scripts/compare_onnxruntime.py "$model" $artifact
step "done"
