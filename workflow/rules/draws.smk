"""Draws: one Parquet file a cell, and what became of the draws.

REQUIRED INPUTS: {RESULTS}/stimuli/{study}.parquet
                 {RESULTS}/models/{model}.json
OUTPUTS:         {RESULTS}/draws/{study}/{model}/{cell}.parquet
                 (in a study of code, cell is {setting}/{augmentation})
                 {RESULTS}/counts/{study}/{model}.parquet

The journals beside the cells are no outputs: Snakemake never deletes them. Nor is
{RESULTS}/spending/{model}.jsonl, which says what an endpoint has cost.
"""

from llm_variability.config import top_p_descending
from llm_variability.devices import DRAWS_FIRST
from llm_variability.draws import COUNTS_VERSION, VERSION as DRAWS_VERSION

MODEL_RANK = {model: rank for rank, model in enumerate(settings.models)}
# Top-p below 1 sorts the vocabulary for the whole batch, also for requests that do not need it, so
# cells of equal top-p are drawn together.
EVERY_CELL = {cell for study in settings.studies for cell in settings.cells(study)}
CELL_RANK = {
    cell: rank / len(EVERY_CELL)
    for rank, cell in enumerate(sorted(EVERY_CELL, key=lambda cell: (top_p_descending(cell), cell)))
}
EVERY_DRAWS = [
    f"{RESULTS}/draws/{study}/{model}/{cell}.parquet"
    for study in settings.studies
    for model in settings.models
    for cell in settings.cells(study)
]


rule generate:
    input:
        stimuli=f"{RESULTS}/stimuli/{{study}}.parquet",
        manifest=f"{RESULTS}/models/{{model}}.json",
    output:
        f"{RESULTS}/draws/{{study}}/{{model}}/{{cell}}.parquet",
    log:
        f"{RESULTS}/logs/draws/{{study}}/{{model}}/{{cell}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/draws/{{study}}/{{model}}/{{cell}}.tsv"
    priority: lambda wildcards: DRAWS_FIRST - MODEL_RANK[wildcards.model] - CELL_RANK[wildcards.cell]
    conda:
        ENVIRONMENT
    resources:
        engine=1,
    params:
        settings=lambda wildcards: settings.models[wildcards.model].to_json(),
        max_new_tokens=lookup(dpath="studies/{study}/max_new_tokens", within=config),
        seed=settings.seed,
        engine_log=f"{RESULTS}/logs/engines/{{model}}.log",
        ledger=f"{RESULTS}/spending/{{model}}.jsonl",
        version=DRAWS_VERSION,
    shell:
        """
        python -m llm_variability.draws \
            --log {log:q} \
            generate \
            --study {wildcards.study:q} \
            --model {wildcards.model:q} \
            --cell {wildcards.cell:q} \
            --settings {params.settings:q} \
            --manifest {input.manifest:q} \
            --stimuli {input.stimuli:q} \
            --max-new-tokens {params.max_new_tokens:q} \
            --seed {params.seed:q} \
            --engine-log {params.engine_log:q} \
            --ledger {params.ledger:q} \
            --output {output:q}
        """


rule count_draws:
    input:
        lambda wildcards: expand(
            f"{RESULTS}/draws/{{study}}/{{model}}/{{cell}}.parquet",
            study=wildcards.study,
            model=wildcards.model,
            cell=settings.cells(wildcards.study),
        ),
    output:
        f"{RESULTS}/counts/{{study}}/{{model}}.parquet",
    log:
        f"{RESULTS}/logs/counts/{{study}}/{{model}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/counts/{{study}}/{{model}}.tsv"
    conda:
        ENVIRONMENT
    params:
        version=COUNTS_VERSION,
    shell:
        """
        python -m llm_variability.draws \
            --log {log:q} \
            count \
            --draws {input:q} \
            --output {output:q}
        """
