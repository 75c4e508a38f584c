PYTHON ?= python3
BIN := .venv/bin

# pip takes a build of torch that lies on the machine; uv all else, in a tenth of the time. Behind
# an index that pip alone is told of: make install INSTALL=.venv/bin/pip
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
INSTALL ?= $(BIN)/uv pip

PACKAGES := "import sysconfig; print(sysconfig.get_path('purelib'))"
VLLMS = $$(.vllm/bin/python -c $(PACKAGES))

# What runs pytest; .ci/run gives a few tests that fail a second try.
RUN :=

# Some images set it. A Ray cluster and a Prefect server are many processes, each of which would
# compile anew all that it imports: seconds of each.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install develop demo up down test test-clusters test-vllm check chaos soak simulate bench gpu audit

# What users need; `develop` adds what tests need, of other frameworks and tools.
install: .venv/installed

develop: .venv/developed

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) torch uv
	$(INSTALL) install --quiet -c constraints.txt -e '.[demo]'
	touch .venv/installed

.venv/developed: .venv/installed
	$(INSTALL) install --quiet -c constraints.txt -e '.[dev,demo]'
	touch .venv/developed

demo: install
	$(BIN)/batch-inference demo

up: install
	$(BIN)/python -m deployments.stack up

down:
	$(BIN)/python -m deployments.stack down

test: develop
	$(BIN)/python -m compileall -q flows tasks deployments
	$(RUN) $(BIN)/pytest -n 3 -m "not (cluster or stack)"

# Clusters of several nodes whose processes are killed, the stack of `make up`, a browser.
test-clusters: develop
	$(RUN) $(BIN)/pytest -n 2 -m "cluster or stack" $$(grep -rlE "mark\.(cluster|stack)\b" tests --include="test_*.py")

# vLLM's own engine, as it is built for CPUs, in an environment beside the other one.
test-vllm: .vllm/installed
	.vllm/bin/python -c "import vllm"
	$(RUN) .vllm/bin/python -m pytest -n 0 tests/kinds/test_vllm.py tests/kinds/test_vllm_engine.py \
		tests/kinds/test_vllm_images.py

.vllm/installed: .venv/developed tests/kinds/vllm_on_cpus.txt
	$(PYTHON) -m venv --clear .vllm
	$(BIN)/python -c $(PACKAGES) > $(VLLMS)/beside.pth
	echo $(CURDIR) >> $(VLLMS)/beside.pth
	.vllm/bin/pip install --quiet --disable-pip-version-check --no-deps \
		-r tests/kinds/vllm_on_cpus.txt $$(grep ^torchvision== constraints.txt)
	# torchvision is built for another PyTorch than this one: its operators are declared beside it.
	echo "from tests.torchvision_shim.loading import declare; DECLARED = declare()" \
		>> $(VLLMS)/torchvision/extension.py
	touch .vllm/installed

check: develop
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry .
	$(BIN)/codespell

audit: develop
	$(BIN)/python -m tests.audit

chaos: develop
	$(BIN)/python -m tests.chaos

soak: develop
	$(BIN)/python -m tests.soak

simulate: develop
	$(BIN)/python -m tests.simulation

bench: develop
	$(BIN)/python -m tests.benchmarks $(ROW)

# For whoever has a GPU: models there beside the same on the CPU, and how fast they are.
gpu: develop
	$(BIN)/python -m tests.benchmarks.gpu_models
	$(BIN)/pytest -m gpu
	$(BIN)/pytest -n 0 tests/kinds/test_vllm_engine.py tests/kinds/test_vllm_images.py
