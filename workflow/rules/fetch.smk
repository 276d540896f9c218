"""Fetch: models, encoders and WordNet, brought here before anything runs.

REQUIRED INPUTS: none; weights come from the hub, a folder or an installed package
OUTPUTS:         {RESULTS}/models/{model}.json      manifest, with the folder of the weights
                 {RESULTS}/encoders/{encoder}.json  the same for an encoder
                 WordNet where a study needs it: see augmentation.smk

All are local rules: compute nodes need no internet. `snakemake fetch` brings all that the study
takes from a network, but for what its endpoints answer.
"""

from llm_variability.devices import ALL_ENGINES, BEFORE_DRAWS
from llm_variability.fetch import VERSION as FETCH_VERSION
from llm_variability.fetch.weights import WEIGHT_FIELDS
from llm_variability.stimuli.code import needs_wordnet


rule fetch:
    input:
        expand(f"{RESULTS}/models/{{model}}.json", model=settings.models),
        expand(f"{RESULTS}/encoders/{{encoder}}.json", encoder=settings.encoders),
        f"{RESULTS}/wordnet.json" if any(map(needs_wordnet, settings.studies.values())) else [],


rule fetch_model:
    output:
        f"{RESULTS}/models/{{model}}.json",
    log:
        f"{RESULTS}/logs/fetch/models/{{model}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/fetch/models/{{model}}.tsv"
    priority: BEFORE_DRAWS
    localrule: True
    conda:
        ENVIRONMENT
    resources:
        engine=ALL_ENGINES,
    params:
        settings=lambda wildcards: settings.models[wildcards.model].to_json(WEIGHT_FIELDS),
        version=FETCH_VERSION,
    shell:
        """
        python -m llm_variability.fetch model \
            --name {wildcards.model:q} \
            --settings {params.settings:q} \
            --log {log:q} \
            --output {output:q}
        """


rule fetch_encoder:
    output:
        f"{RESULTS}/encoders/{{encoder}}.json",
    log:
        f"{RESULTS}/logs/fetch/encoders/{{encoder}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/fetch/encoders/{{encoder}}.tsv"
    priority: BEFORE_DRAWS
    localrule: True
    conda:
        ENVIRONMENT
    resources:
        engine=ALL_ENGINES,
    params:
        settings=lambda wildcards: settings.encoders[wildcards.encoder].to_json(WEIGHT_FIELDS),
        version=FETCH_VERSION,
    shell:
        """
        python -m llm_variability.fetch encoder \
            --name {wildcards.encoder:q} \
            --settings {params.settings:q} \
            --log {log:q} \
            --output {output:q}
        """
