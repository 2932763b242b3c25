#!/bin/bash
# The wheel in fresh environments, as a library among others: the core's tests pass with the oldest
# and the newest packages that pyproject.toml allows and that have wheels for this Python.
#   tests/wheel_check.sh [PYTHON…]    each a python3.x; without any, those of 3.11 to 3.13 that are here
# It fetches some 1.5 GB an environment; each is deleted when its tests are done.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=$PWD/.venv/bin/uv
[ -x "$uv" ] || { echo "This needs .venv, which \`make wheel-check\` sets up." >&2; exit 1; }
[ $# -gt 0 ] || set -- python3.11 python3.12 python3.13
pythons=()
for python in "$@"; do # pyenv has commands of that name for those that it would not run, too.
  if "$python" -c "" 2> /dev/null; then pythons+=("$python"); else echo "--- $python is not here"; fi
done
[ ${#pythons[@]} -gt 0 ] || { echo "There is no Python to try it with." >&2; exit 1; }
unset PYTHONPATH # It may lead to the checkout's code, which is not what is tested.
extras=(coco dicom hdf5 heic jxl sound tensorboard video weights zarr)
# Of these, older releases have no wheels for newer Pythons.
compiled=(markupsafe matplotlib numpy pandas pyyaml scikit-learn scipy)
# Rooms that need no TFX; neither a fit nor an engine beside Python.
rooms="archives arrays augment dataset feeding generators images ingest meaning order record_files sources \
  stores tables transform views"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$uv" build --quiet --wheel --out-dir "$folder" .
wheel=$(echo "$folder"/*.whl)

check() { # a Python, and which versions: lowest-direct or highest
  local venv=$folder/venv
  echo "--- $("$1" --version), $2"
  "$uv" venv --quiet --clear --python "$1" "$venv"
  "$uv" pip compile --quiet --python "$1" --resolution "$2" \
    "${compiled[@]/#/--only-binary=}" "${extras[@]/#/--extra=}" pyproject.toml --output-file "$folder/pins.txt"
  "$uv" pip install --quiet --python "$venv" --requirements "$folder/pins.txt"
  "$uv" pip install --quiet --python "$venv" --no-deps "$wheel"
  "$uv" pip install --quiet --python "$venv" --constraint "$folder/pins.txt" hypothesis pytest \
    pytest-rerunfailures pytest-timeout pytest-xdist tifffile tqdm
  "$venv/bin/python" -c "import importlib.metadata as found, sys, image_pipeline
assert image_pipeline.__file__.startswith(sys.prefix), image_pipeline.__file__
for name in ('apache-beam', 'tensorflow', 'tensorflow-transform', 'numpy', 'pyarrow', 'pandas', 'keras'):
  print(' ', name, found.version(name))"
  "$venv/bin/python" -m pytest --numprocesses auto --dist loadfile --core \
    -m "not wide" -ra -vv --no-header \
    $(printf 'tests/%s ' $rooms) | tail -n 15
}

for python in "${pythons[@]}"; do
  check "$python" lowest-direct
  check "$python" highest
done
