# Makes .venv in the checkout and installs autoq into it; sourced by the scripts beside it.
# Usage: source scripts/environment.sh EXTRAS      e.g. "quantize" or "test,quantize"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
  echo "Python 3.10 or newer is needed; $python is $("$python" --version 2>&1)." \
    "Set PYTHON to a newer one." >&2
  exit 2
}
[ -x .venv/bin/python ] || "$python" -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check -e ".[$1]"
