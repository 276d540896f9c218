"""Augmentation: WordNet for synonyms, and paraphrases by a model, both before a study's prompts.

REQUIRED INPUTS: the study's sets of tasks (`studies.{study}.stimuli`)
                 {RESULTS}/models/{model}.json
                 {RESULTS}/encoders/{encoder}.json
OUTPUTS:         {RESULTS}/wordnet.json  manifest; the files are beside it, in {RESULTS}/wordnet
                 {RESULTS}/paraphrases/{study}/requests.parquet
                 {RESULTS}/paraphrases/{study}/{model}/{cell}.parquet
                 {RESULTS}/paraphrases/{study}.parquet

WordNet is fetched by a local rule: compute nodes need no internet. A model is asked for paraphrases
as for any draw; here a cell is a temperature at top-p 1.
"""

import json

from llm_variability.augmentation import WORDNET_VERSION
from llm_variability.config import cell_name
from llm_variability.devices import ALL_ENGINES, BEFORE_DRAWS, DRAWS_FIRST
from llm_variability.paraphrases import (
    REQUEST_FIELDS,
    REQUEST_VERSION,
    SCORE_FIELDS,
    SCORE_VERSION,
)

PARAPHRASING = {study: settings.studies[study].paraphrase for study in PARAPHRASED}
PRIMARY_ENCODER = next(iter(settings.encoders))


rule wordnet:
    output:
        f"{RESULTS}/wordnet.json",
    log:
        f"{RESULTS}/logs/wordnet.log",
    benchmark:
        f"{RESULTS}/benchmarks/wordnet.tsv"
    priority: BEFORE_DRAWS
    localrule: True
    conda:
        ENVIRONMENT
    resources:
        engine=ALL_ENGINES,
    params:
        source=settings.wordnet.source,
        checksum=["--checksum", settings.wordnet.checksum] if settings.wordnet.checksum else [],
        folder=subpath(output[0], strip_suffix=".json"),
        version=WORDNET_VERSION,
    shell:
        """
        python -m llm_variability.augmentation \
            --log {log:q} \
            wordnet \
            --source {params.source:q} \
            {params.checksum:q} \
            --folder {params.folder:q} \
            --output {output:q}
        """


rule paraphrase_requests:
    input:
        NAMED_FILES,
    output:
        f"{RESULTS}/paraphrases/{{study}}/requests.parquet",
    log:
        f"{RESULTS}/logs/paraphrases/{{study}}/requests.log",
    benchmark:
        f"{RESULTS}/benchmarks/paraphrases/{{study}}/requests.tsv"
    wildcard_constraints:
        study=match_names(PARAPHRASED),
    priority: BEFORE_DRAWS
    localrule: True
    conda:
        ENVIRONMENT
    resources:
        engine=ALL_ENGINES,
    params:
        folder=STIMULI_OF,
        tasks=lambda wildcards: json.dumps(settings.studies[wildcards.study].tasks),
        paraphrase=lambda wildcards: PARAPHRASING[wildcards.study].to_json(REQUEST_FIELDS),
        version=REQUEST_VERSION,
    shell:
        """
        python -m llm_variability.paraphrases \
            --log {log:q} \
            request \
            --study {wildcards.study:q} \
            --tasks-folder {params.folder:q} \
            --tasks {params.tasks:q} \
            --paraphrase {params.paraphrase:q} \
            --output {output:q}
        """


# Every prompt of the study waits for them, so they come before all other draws.
use rule generate as generate_paraphrases with:
    input:
        stimuli=f"{RESULTS}/paraphrases/{{study}}/requests.parquet",
        manifest=f"{RESULTS}/models/{{model}}.json",
    output:
        f"{RESULTS}/paraphrases/{{study}}/{{model}}/{{setting}}.parquet",
    log:
        f"{RESULTS}/logs/paraphrases/{{study}}/{{model}}/{{setting}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/paraphrases/{{study}}/{{model}}/{{setting}}.tsv"
    wildcard_constraints:
        study=match_names(PARAPHRASED),
    priority: DRAWS_FIRST + 1
    params:
        max_new_tokens=lambda wildcards: PARAPHRASING[wildcards.study].max_new_tokens,


# An encoder on a GPU takes the device from the engine.
rule score_paraphrases:
    input:
        requests=f"{RESULTS}/paraphrases/{{study}}/requests.parquet",
        draws=lambda wildcards: expand(
            f"{RESULTS}/paraphrases/{{study}}/{{model}}/{{cell}}.parquet",
            study=wildcards.study,
            model=PARAPHRASING[wildcards.study].model,
            cell=[
                cell_name(temperature, "1.0")
                for temperature in PARAPHRASING[wildcards.study].temperatures
            ],
        ),
        manifest=f"{RESULTS}/encoders/{PRIMARY_ENCODER}.json",
        bertscore=lambda wildcards: expand(
            f"{RESULTS}/encoders/{{encoder}}.json",
            encoder=PARAPHRASING[wildcards.study].bertscore or [],
        ),
    output:
        f"{RESULTS}/paraphrases/{{study}}.parquet",
    log:
        f"{RESULTS}/logs/paraphrases/{{study}}/scores.log",
    benchmark:
        f"{RESULTS}/benchmarks/paraphrases/{{study}}/scores.tsv"
    wildcard_constraints:
        study=match_names(PARAPHRASED),
    priority: BEFORE_DRAWS
    conda:
        ENVIRONMENT
    threads: ENCODER_THREADS
    resources:
        engine=1,
        gpu=int(ON_GPU),
    params:
        paraphrase=lambda wildcards: PARAPHRASING[wildcards.study].to_json(SCORE_FIELDS),
        encoder=settings.encoders[PRIMARY_ENCODER].to_json(),
        bertscore=lambda wildcards, input: (
            [
                "--bertscore-manifest",
                *input.bertscore,
                "--bertscore-settings",
                settings.encoders[PARAPHRASING[wildcards.study].bertscore].to_json(),
            ]
            if input.bertscore
            else []
        ),
        version=SCORE_VERSION,
    shell:
        """
        python -m llm_variability.paraphrases \
            --log {log:q} \
            score \
            --requests {input.requests:q} \
            --draws {input.draws:q} \
            --paraphrase {params.paraphrase:q} \
            --encoder-settings {params.encoder:q} \
            --manifest {input.manifest:q} \
            {params.bertscore:q} \
            --output {output:q}
        """
