# `make help` says what there is to do. Settings, each given as `make run NAME=value`:
#   ENV=gpu             vLLM for CUDA, in .venv-gpu (default: cpu, in .venv)
#   ARGS='...'          handed on to snakemake or pytest
#   PYTHON=python3.11   the Python to make the environment with (3.11 or 3.12)
#   TORCH_INDEX=...     the index to install torch from, such as PyTorch's CPU wheel index
ENV ?= cpu
PYTHON ?= python3
ARGS ?=
VENV := $(CURDIR)/$(if $(filter cpu,$(ENV)),.venv,.venv-$(ENV))

# Where nobody named a Python, a supported one is looked for.
INSTALL = $(PYTHON) envs/install.py --environment $(ENV) --venv $(VENV) \
  $(if $(filter file,$(origin PYTHON)),--find-python)

# Rules run `python`, which has to be the environment's. The installer must not be run by it.
IN_VENV = PATH="$(VENV)/bin:$$PATH"

ifdef TORCH_INDEX
export TORCH_INDEX
endif

.DEFAULT_GOAL := help
.PHONY: help run test lint install install-dev config docs docs-pictures docs-gallery lock

help:
	@echo 'make run      install what is missing, run the default study, say where the report is'
	@echo 'make test     install what is missing, run every test and check'
	@echo 'make lint     ruff, mypy, snakefmt and snakemake --lint'
	@echo 'make install  only install'
	@echo 'make config   write the default configuration, its schema and the pages of keys, files, columns from the code'
	@echo 'make docs     build the documentation into site/, every link checked'
	@echo 'make lock     solve the locks in envs/ again (UPGRADE=1: with the newest releases)'
	@sed -n 's/^#   /  /p' Makefile

run: install
	@$(IN_VENV) snakemake --cores all $(ARGS)
	@if [ -f results/report.html ]; then echo 'Report: $(CURDIR)/results/report.html'; fi

test: install-dev
	@$(IN_VENV) pytest $(ARGS)

lint: install-dev
	$(IN_VENV) ruff check .
	$(IN_VENV) ruff format --check .
	$(IN_VENV) mypy
	$(IN_VENV) snakefmt --check Snakefile workflow/rules
	$(IN_VENV) snakemake --lint

install:
	@$(INSTALL)

install-dev:
	@$(INSTALL) --dev

config: install
	$(IN_VENV) python -m llm_variability.config default > config/config.yaml.new
	mv config/config.yaml.new config/config.yaml
	$(IN_VENV) python -m llm_variability.config schema > workflow/schemas/config.schema.json.new
	mv workflow/schemas/config.schema.json.new workflow/schemas/config.schema.json
	$(IN_VENV) python -m llm_variability.tables > docs/columns.md.new
	mv docs/columns.md.new docs/columns.md
	$(IN_VENV) python -m llm_variability.config_document > docs/configuration.md.new
	mv docs/configuration.md.new docs/configuration.md
	$(IN_VENV) python -m llm_variability.record.document > docs/files.md.new
	mv docs/files.md.new docs/files.md

docs: install-dev
	NO_MKDOCS_2_WARNING=1 $(IN_VENV) mkdocs build --strict

docs-pictures: install-dev
	$(IN_VENV) python docs/scripts/pictures.py

docs-gallery: install-dev
	$(IN_VENV) python docs/scripts/gallery.py results --screenshot

lock:
	$(PYTHON) envs/lock.py $(if $(UPGRADE),--upgrade)
