"""Draws: one Parquet file a cell, what became of the draws, and who made them how fast.

REQUIRED INPUTS: {RESULTS}/stimuli/{study}.parquet
                 {RESULTS}/models/{model}.json
OUTPUTS:         {RESULTS}/draws/{study}/{model}/{cell}.parquet
                 (a cell is a {setting}; in a study of code a {setting}/{augmentation})
                 {RESULTS}/{counts,sessions}/{study}/{model}.parquet
                 {RESULTS}/throughput/{model}.parquet

The journals of the settings are no outputs: Snakemake never deletes them. Nor is
{RESULTS}/spending/{model}.jsonl, which says what an endpoint has cost.
"""

from llm_variability.braces import brace_paths
from llm_variability.config import top_p_descending
from llm_variability.devices import DRAWS_FIRST
from llm_variability.devices.inventory import list_devices
from llm_variability.devices.placing import rank_models
from llm_variability.draws import (
    COUNTS_VERSION,
    THROUGHPUT_VERSION,
    VERSION as DRAWS_VERSION,
)
from llm_variability.draws.engine import count_devices, runs_on_cpu

MODEL_SETTINGS = {model: how.to_json() for model, how in settings.models.items()}
DEVICES = {
    model: count_devices(how) if how.endpoint is None else 0
    for model, how in settings.models.items()
}
# Models whose engines fit side by side on this machine's devices draw side by side.
MODEL_RANK = rank_models(DEVICES, len(list_devices(on_cpu=runs_on_cpu())))
# Top-p below 1 sorts the vocabulary for the whole batch, also for requests that do not need it, so
# settings of equal top-p are drawn together.
EVERY_SETTING = {cell for study in settings.studies for cell in settings.grid_of(study).cells()}
SETTING_RANK = {
    setting: rank / len(EVERY_SETTING)
    for rank, setting in enumerate(
        sorted(EVERY_SETTING, key=lambda setting: (top_p_descending(setting), setting))
    )
}
EVERY_DRAWS = [
    f"{RESULTS}/draws/{study}/{model}/{cell}.parquet"
    for study in settings.studies
    for model in settings.models
    for cell in settings.cells(study)
]

# A setting of a study of code has a file an augmentation; one job draws them all. Studies with the
# same augmentations share a rule.
AUGMENTATIONS = {study: tuple(settings.studies[study].augmentations) for study in CODE_STUDIES}
DRAWN_BY = {"generate": (GROUP_STUDIES + PERSONA_STUDIES, ())} | {
    f"generate_code{f'_{number}' if number > 1 else ''}": (
        [study for study in CODE_STUDIES if AUGMENTATIONS[study] == names],
        names,
    )
    for number, names in enumerate(dict.fromkeys(AUGMENTATIONS.values()), start=1)
}


for NAME, (STUDIES, NAMES) in DRAWN_BY.items():

    rule:
        name:
            NAME
        input:
            stimuli=f"{RESULTS}/stimuli/{{study}}.parquet",
            manifest=f"{RESULTS}/models/{{model}}.json",
        output:
            [
                f"{RESULTS}/draws/{{study}}/{{model}}/{cell}.parquet"
                for cell in ([f"{{setting}}/{name}" for name in NAMES] or ["{setting}"])
            ],
        log:
            f"{RESULTS}/logs/draws/{{study}}/{{model}}/{{setting}}.log",
        benchmark:
            f"{RESULTS}/benchmarks/draws/{{study}}/{{model}}/{{setting}}.tsv"
        wildcard_constraints:
            study=match_names(STUDIES),
        priority: lambda w: DRAWS_FIRST - MODEL_RANK[w.model] - SETTING_RANK[w.setting]
        conda:
            ENVIRONMENT
        resources:
            engine=1,
            gpu=lambda wildcards: DEVICES[wildcards.model] if ON_GPU else 0,
        params:
            settings=lambda wildcards: MODEL_SETTINGS[wildcards.model],
            augmentations=["--augmentations", *NAMES] if NAMES else [],
            max_new_tokens=lambda wildcards: settings.studies[wildcards.study].max_new_tokens,
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
                --setting {wildcards.setting:q} \
                {params.augmentations:q} \
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
        counts=f"{RESULTS}/counts/{{study}}/{{model}}.parquet",
        sessions=f"{RESULTS}/sessions/{{study}}/{{model}}.parquet",
    log:
        f"{RESULTS}/logs/counts/{{study}}/{{model}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/counts/{{study}}/{{model}}.tsv"
    conda:
        ENVIRONMENT
    params:
        draws=lambda wildcards, input: brace_paths(input),
        version=COUNTS_VERSION,
    shell:
        """
        python -m llm_variability.draws \
            --log {log:q} \
            count \
            --draws {params.draws} \
            --output {output.counts:q} \
            --sessions {output.sessions:q}
        """


# The last job of a model's draws; on a cluster, what makes one job of them all.
rule throughput:
    input:
        expand(f"{RESULTS}/sessions/{{study}}/{{{{model}}}}.parquet", study=settings.studies),
    output:
        f"{RESULTS}/throughput/{{model}}.parquet",
    log:
        f"{RESULTS}/logs/throughput/{{model}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/throughput/{{model}}.tsv"
    conda:
        ENVIRONMENT
    params:
        version=THROUGHPUT_VERSION,
    shell:
        """
        python -m llm_variability.draws \
            --log {log:q} \
            summarise \
            --sessions {input:q} \
            --output {output:q}
        """
