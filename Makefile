# Everything that a person types. `make` alone lists it.
PYTHON ?= python3
VENV := .venv/bin

# `make up` is for trying things out: the drills may run there.
SLUICEGATE_DRILLS ?= 1
export SLUICEGATE_DRILLS

.PHONY: help up venv test-venv test lint bench soak lock clean

help:
	@echo "make up      start everything here; Ctrl-C stops it"
	@echo "make test    every test, services and browser included"
	@echo "make lint    ruff, mypy and the rules of who imports whom"
	@echo "make bench   the gate beside stock Celery"
	@echo "make soak    the long tests: a thousand kills under load, a week compressed, a hundred thousand held jobs, the model at length"

# exec, so that the process that make waits for is the supervisor itself.
up: venv
	@exec $(VENV)/python manage.py up

venv:
	@command -v $(PYTHON) >/dev/null || { echo "sluicegate: $(PYTHON) is not installed; Python 3.11 or newer is needed" >&2; exit 1; }
	@$(PYTHON) tools/venv.py requirements.lock

test-venv:
	@command -v $(PYTHON) >/dev/null || { echo "sluicegate: $(PYTHON) is not installed; Python 3.11 or newer is needed" >&2; exit 1; }
	@$(PYTHON) tools/venv.py requirements.lock requirements-dev.lock

test: test-venv
	@exec $(VENV)/python tools/check.py $(TESTS)

lint: test-venv
	@exec $(VENV)/python tools/check.py --lint-only

bench: venv
	@exec $(VENV)/python manage.py bench

soak: test-venv
	@exec $(VENV)/python -m pytest tests/engine tests/faults tests/field tests/monitor tests/packaging tests/web -m soak -s -p no:cacheprovider

# Needs pip-tools in the Python that is named.
lock:
	@$(PYTHON) -m piptools compile -q --generate-hashes --allow-unsafe --strip-extras --no-header --no-emit-index-url \
	  --no-emit-trusted-host --no-emit-find-links --no-annotate --extra room -o requirements.lock pyproject.toml
	@$(PYTHON) -m piptools compile -q --generate-hashes --allow-unsafe --strip-extras --no-header --no-emit-index-url \
	  --no-emit-trusted-host --no-emit-find-links --no-annotate --extra room --extra dev -c requirements.lock \
	  -o requirements-dev.lock pyproject.toml

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
