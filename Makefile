# `make demo` and `make test` are all there is to set up: both create .venv from the lock first.
# Only Python and make are assumed; requirements/find_python.sh says which.

SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DOCS_VENV := build/docs/venv
DOCS_BIN := $(DOCS_VENV)/bin
DOCS_READY := $(DOCS_VENV)/.ready

# What a run imports, compiled once: where Python is asked not to keep what it compiles, as on some
# machines and in most images, each import of TFX would take 17 s more. uv compiles nothing of itself.
IMPORTED := image_pipeline.api, image_pipeline.run.local, image_pipeline.report.page, \
  image_pipeline.cli, image_pipeline.components.training.trainer

# Both folders under their import name, for tools that read the code without an installation.
LINK := mkdir -p build/links/image_pipeline && \
  ln -sfn $(CURDIR)/components $(CURDIR)/pipeline/* build/links/image_pipeline/

.PHONY: demo notebook quick test pytest test-wide test-all wheel-check fresh-check check options docs pictures flink spark prism interop end-to-end bench bench-smoke bench-page browse-check image-check lock clean

demo: $(READY)  ## the whole pipeline on handwritten digits
	$(BIN)/image-pipeline demo

notebook: $(READY)  ## the notebooks in JupyterLab, with this environment; as root: make notebook ROOT=1
	$(BIN)/jupyter-lab --notebook-dir=notebooks $(if $(ROOT),--allow-root)

# Some machines ask Python not to keep what it compiled. TFX would then be compiled anew in each of
# the processes that the tests start: three times its import.
test test-wide: export PYTHONDONTWRITEBYTECODE :=
# A file at a time on every core, the longest files first. Two processes more than cores, since tests
# often wait for processes of their own.
PYTEST = $(BIN)/python -m pytest -r fER --dist loadfile --no-loadscope-reorder \
  --numprocesses $$($(BIN)/python -c "import os; print(os.cpu_count() + 2)")

quick: $(READY) check  ## style, types, and the unit tests that need no TensorFlow: for the inner loop
	$(BIN)/python -m pytest --quick -m "unit and not e2e and not wide" --numprocesses auto

test: $(READY)  ## all that protects data, goldens, a whole run a kind of label: before a commit
	@$(MAKE) --no-print-directory --jobs=2 check pytest

pytest: $(READY)
	$(PYTEST) -m "not wide"

test-wide: $(READY)  ## what `make test` leaves out: engines, notebooks, the docs, wide matrices and properties
	$(PYTEST) -m "wide or hypothesis" --hypothesis-profile many

test-all: test test-wide  ## every test, as CI does

wheel-check: $(READY)  ## the core's wheel with the oldest and the newest packages allowed, on each Python here
	tests/wheel_check.sh

fresh-check:  ## the demo and `make quick` on a bare Debian 13, as a newcomer has them; needs root and debootstrap
	tests/fresh_check.sh

check: $(READY)  ## style, types, the Dockerfile, and that all imported packages are declared
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(LINK)
	$(BIN)/mypy
	$(BIN)/deptry .
	$(BIN)/hadolint kubeflow/Dockerfile

$(READY): requirements.lock pyproject.toml requirements/find_python.sh
	@python=$$(requirements/find_python.sh) && \
	  echo "Setting up $(VENV) with $$($$python --version) from requirements.lock, once (about 3 GB; a minute or a few) …" && \
	  $$python -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@echo "  installing the locked packages …"
	@$(BIN)/uv pip install --quiet --python $(VENV) --no-deps --require-hashes -r requirements.lock
	@$(BIN)/uv pip install --quiet --python $(VENV) --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m image_pipeline.components.beam.sql_util
	@echo "  compiling what a run imports …"
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -c "import $(IMPORTED)" 2> $(VENV)/imports.log || \
	  { cat $(VENV)/imports.log; exit 1; }
	@touch $@
	@echo "  done."

options: $(READY)  ## docs/options.md from the classes that read the options
	$(BIN)/image-pipeline options --markdown > docs/options.md

docs: $(DOCS_READY)  ## the documentation as a site, in build/docs/site; needs none of the pipeline's packages
	@$(LINK)
	$(DOCS_BIN)/python docs/tools/pages.py gather build/docs/pages
	NO_COLOR=1 $(DOCS_BIN)/zensical build --strict --clean
	$(DOCS_BIN)/python docs/tools/pages.py check build/docs/site

pictures: $(READY) $(DOCS_READY)  ## the pictures in docs/images, of new runs on the demo and on photos; needs Chromium
	$(DOCS_BIN)/python docs/tools/pictures.py

$(DOCS_READY): requirements/docs.lock
	@python3 -m venv --clear $(DOCS_VENV)
	@$(DOCS_BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps \
	  -r requirements/docs.lock
	@touch $@

flink: $(READY)  ## both Beam jobs on a real Flink here; make flink IMAGES="folder folder"
	$(BIN)/python -m benchmarks.flink $(if $(IMAGES),--images $(IMAGES))

spark: $(READY)  ## both Beam jobs on an embedded Spark here; make spark IMAGES=folder
	$(BIN)/python -m benchmarks.engines spark $(if $(IMAGES),--images $(IMAGES))

prism: $(READY)  ## both Beam jobs on Prism, built here with Go; make prism IMAGES=folder
	$(BIN)/python -m benchmarks.engines prism $(if $(IMAGES),--images $(IMAGES))

interop: $(READY)  ## docs/interop.md with PyTorch, Grain, TFDS, Keras on JAX, Model Garden (10 GB)
	$(BIN)/python -m benchmarks.interop $(if $(IMAGES),--images $(IMAGES))

end-to-end: $(READY)  ## training fed in three ways; make end-to-end IMAGES=cifar, its train/, test/
	$(BIN)/python -m benchmarks.end_to_end --images $(IMAGES) --write docs/end-to-end.md

bench: $(READY)  ## every benchmark (an hour, 10 GB); make bench IMAGES=photos CIFAR=cifar ONLY="read write"
	$(BIN)/python -m benchmarks.bench run $(if $(IMAGES),--images $(IMAGES)) \
	  $(if $(CIFAR),--cifar $(CIFAR)) $(if $(ONLY),--only $(ONLY))

bench-smoke: $(READY)  ## a few minutes' worth of it, beside the committed ratios; make bench-smoke IMAGES=photos
	$(BIN)/python -m benchmarks.bench smoke $(if $(IMAGES),--images $(IMAGES))

bench-page: $(READY)  ## benchmarks/RESULTS.md from the raw results in benchmarks/results
	$(BIN)/python -m benchmarks.bench page

browse-check: $(READY)  ## the pages of `browse` and `report` used in a real Chromium; SHOTS=folder keeps pictures
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -m benchmarks.browse_in_browser $(if $(SHOTS),--screenshots $(SHOTS))

image-check: $(READY)  ## the Dockerfile's steps without Docker (4 GB); make image-check GPU=1 (9 GB)
	$(BIN)/python kubeflow/check_image.py $(if $(GPU),--gpu)

COMPILE := uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate

# The image's packages are those of the first lock without the tools; with CUDA's added, it uses GPUs.
lock:  ## resolve pyproject.toml again
	$(COMPILE) pyproject.toml --extra all --extra notebooks --extra dev --override requirements/overrides.txt -o requirements.lock
	$(COMPILE) pyproject.toml --extra all --override requirements/overrides.txt -c requirements.lock \
	  -o requirements/image.lock
	$(COMPILE) requirements/gpu.in -o requirements/gpu.lock
	$(COMPILE) requirements/docs.in -o requirements/docs.lock

clean:  ## everything that was made here
	rm -rf $(VENV) demo-output build
