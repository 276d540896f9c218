"""Personas: a model writes each task down as each persona would, before a study's prompts.

REQUIRED INPUTS: the study's sets of tasks (`studies.{study}.stimuli`)
                 the file with the personas (`studies.{study}.personas.file`)
                 {RESULTS}/models/{model}.json
OUTPUTS:         {RESULTS}/personas/{study}/round-{round}/requests.parquet
                 {RESULTS}/personas/{study}/round-{round}/{model}/{cell}.parquet
                 {RESULTS}/personas/{study}.parquet

A model is asked as for any draw. What cannot be used is asked for again in the next round, of which
there are `personas.attempts`; a round in which nothing is lacking has no row.
"""

import json

from llm_variability.config import cell_name
from llm_variability.devices import ALL_ENGINES, BEFORE_DRAWS, DRAWS_FIRST
from llm_variability.personas import READ_VERSION, REQUEST_VERSION, SETTINGS_READ
from llm_variability.personas.requests import round_seed
from llm_variability.stimuli.persona_file import locate_personas

PERSONAS = {study: settings.studies[study].personas for study in PERSONA_STUDIES}
ROUND = f"{RESULTS}/personas/{{study}}/round-{{round}}"
ROUNDS_BEFORE = {
    study: [
        f"{RESULTS}/personas/{study}/round-{number}/{how.model}/"
        f"{cell_name(how.temperature, '1.0')}.parquet"
        for number in range(how.attempts)
    ]
    for study, how in PERSONAS.items()
}


rule persona_requests:
    input:
        tasks=NAMED_FILES,
        personas=lambda wildcards: locate_personas(PERSONAS[wildcards.study]),
        draws=lambda wildcards: ROUNDS_BEFORE[wildcards.study][: int(wildcards.round)],
    output:
        f"{ROUND}/requests.parquet",
    log:
        f"{RESULTS}/logs/personas/{{study}}/round-{{round}}/requests.log",
    benchmark:
        f"{RESULTS}/benchmarks/personas/{{study}}/round-{{round}}/requests.tsv"
    wildcard_constraints:
        study=match_names(PERSONA_STUDIES),
        round="[0-9]+",
    priority: BEFORE_DRAWS
    conda:
        ENVIRONMENT
    resources:
        engine=lambda wildcards: 0 if int(wildcards.round) else ALL_ENGINES,
    params:
        folder=STIMULI_OF,
        tasks=lambda wildcards: json.dumps(settings.studies[wildcards.study].tasks),
        settings=lambda wildcards: PERSONAS[wildcards.study].to_json(SETTINGS_READ),
        version=REQUEST_VERSION,
    shell:
        """
        python -m llm_variability.personas \
            --log {log:q} \
            request \
            --study {wildcards.study:q} \
            --tasks-folder {params.folder:q} \
            --tasks {params.tasks:q} \
            --personas {input.personas:q} \
            --settings {params.settings:q} \
            --draws {input.draws:q} \
            --output {output:q}
        """


# Every prompt of the study waits for them, so they come before all other draws.
use rule generate as generate_rewritings with:
    input:
        stimuli=f"{ROUND}/requests.parquet",
        manifest=f"{RESULTS}/models/{{model}}.json",
    output:
        f"{ROUND}/{{model}}/{{setting}}.parquet",
    log:
        f"{RESULTS}/logs/personas/{{study}}/round-{{round}}/{{model}}/{{setting}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/personas/{{study}}/round-{{round}}/{{model}}/{{setting}}.tsv"
    wildcard_constraints:
        study=match_names(PERSONA_STUDIES),
        round="[0-9]+",
    priority: DRAWS_FIRST + 1
    params:
        max_new_tokens=lambda wildcards: PERSONAS[wildcards.study].max_new_tokens,
        seed=lambda wildcards: round_seed(settings.seed, int(wildcards.round)),


rule read_rewritings:
    input:
        tasks=NAMED_FILES,
        personas=lambda wildcards: locate_personas(PERSONAS[wildcards.study]),
        draws=lambda wildcards: ROUNDS_BEFORE[wildcards.study],
    output:
        f"{RESULTS}/personas/{{study}}.parquet",
    log:
        f"{RESULTS}/logs/personas/{{study}}/read.log",
    benchmark:
        f"{RESULTS}/benchmarks/personas/{{study}}/read.tsv"
    wildcard_constraints:
        study=match_names(PERSONA_STUDIES),
    priority: BEFORE_DRAWS
    conda:
        ENVIRONMENT
    params:
        folder=STIMULI_OF,
        tasks=lambda wildcards: json.dumps(settings.studies[wildcards.study].tasks),
        settings=lambda wildcards: PERSONAS[wildcards.study].to_json(SETTINGS_READ),
        seed=settings.seed,
        version=READ_VERSION,
    shell:
        """
        python -m llm_variability.personas \
            --log {log:q} \
            read \
            --study {wildcards.study:q} \
            --tasks-folder {params.folder:q} \
            --tasks {params.tasks:q} \
            --personas {input.personas:q} \
            --settings {params.settings:q} \
            --draws {input.draws:q} \
            --seed {params.seed:q} \
            --output {output:q}
        """
