#!/bin/bash
# The wheel in fresh environments, as a library among others: the core's tests pass with the oldest
# and the newest packages that pyproject.toml allows.
#   tests/wheel_check.sh [PYTHON…]    each a python3.x; without any, those of 3.11 to 3.13 that are here
# It fetches some 1.5 GB an environment; each is deleted when its tests are done.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=$PWD/.venv/bin/uv
[ $# -gt 0 ] || set -- python3.11 python3.12 python3.13
extras=(hdf5 sound video zarr)
# Rooms that need no TFX; neither a fit nor an engine beside Python.
rooms="archives arrays augment dataset feeding generators images ingest order record_files sources \
  stores tables transform views"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$uv" build --quiet --wheel --out-dir "$folder" .
wheel=$(echo "$folder"/*.whl)

check() { # a Python, and which versions: lowest-direct or highest
  local venv=$folder/venv
  echo "--- $("$1" --version), $2"
  "$uv" venv --quiet --clear --python "$1" "$venv"
  "$uv" pip compile --quiet --python "$1" --resolution "$2" "${extras[@]/#/--extra=}" pyproject.toml \
    --output-file "$folder/pins.txt"
  "$uv" pip install --quiet --python "$venv" --requirements "$folder/pins.txt"
  "$uv" pip install --quiet --python "$venv" --no-deps "$wheel"
  "$uv" pip install --quiet --python "$venv" hypothesis pytest pytest-timeout \
    pytest-xdist tifffile "zarr<3"
  "$venv/bin/python" -c "import importlib.metadata as found
for name in ('apache-beam', 'tensorflow', 'tensorflow-transform', 'numpy', 'pyarrow', 'pandas', 'keras'):
  print(' ', name, found.version(name))"
  # From a folder of its own: the checkout's is not what is tested.
  "$venv/bin/python" -m pytest --numprocesses auto --dist loadfile --core \
    -m "not wide" -ra -vv --no-header \
    $(printf 'tests/%s ' $rooms) | tail -n 15
}

for python in "$@"; do
  command -v "$python" > /dev/null || { echo "--- $python is not here"; continue; }
  check "$python" lowest-direct
  check "$python" highest
done
