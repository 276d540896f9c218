"""Stimuli: the prompts of each study.

REQUIRED INPUTS: the study's stimuli file (`studies.{study}.stimuli`) and the list it names, if any
                 for a study of code: the files of its sets of tasks, {RESULTS}/wordnet.json and
                 {RESULTS}/paraphrases/{study}.parquet, where it needs them
                 for a study of personas: the files of its sets of tasks, and
                 {RESULTS}/personas/{study}.parquet
OUTPUTS:         {RESULTS}/stimuli/{study}.parquet
                 {RESULTS}/augmentations/{study}.parquet  (studies of code)
"""

from llm_variability.devices import ALL_ENGINES, BEFORE_DRAWS
from llm_variability.stimuli import (
    CODE_FIELDS,
    PERSONA_FIELDS,
    STUDY_FIELDS,
    VERSION as STIMULI_VERSION,
)
from llm_variability.stimuli.code import needs_wordnet
from llm_variability.stimuli.registry import list_named_files

# What the configuration names, wherever it lies; and the files that this names in turn.
STIMULI_OF = lambda wildcards: find_resource(settings.studies[wildcards.study].stimuli, HOME)
NAMED_FILES = lambda wildcards: list_named_files(
    STIMULI_OF(wildcards), settings.studies[wildcards.study]
)


rule stimuli:
    input:
        stimuli=STIMULI_OF,
        lists=NAMED_FILES,
    output:
        f"{RESULTS}/stimuli/{{study}}.parquet",
    log:
        f"{RESULTS}/logs/stimuli/{{study}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/stimuli/{{study}}.tsv"
    wildcard_constraints:
        study=match_names(GROUP_STUDIES),
    priority: BEFORE_DRAWS
    localrule: True
    conda:
        ENVIRONMENT
    resources:
        engine=ALL_ENGINES,
    params:
        settings=lambda wildcards: settings.studies[wildcards.study].to_json(STUDY_FIELDS),
        version=STIMULI_VERSION,
    shell:
        """
        python -m llm_variability.stimuli \
            --study {wildcards.study:q} \
            --settings {params.settings:q} \
            --stimuli {input.stimuli:q} \
            --log {log:q} \
            --output {output:q}
        """


# Prompts come before all draws, but for those that wait for paraphrases, which are draws.
rule code_stimuli:
    input:
        tasks=NAMED_FILES,
        wordnet=lambda wildcards: (
            [f"{RESULTS}/wordnet.json"] if needs_wordnet(settings.studies[wildcards.study]) else []
        ),
        paraphrases=lambda wildcards: (
            [f"{RESULTS}/paraphrases/{wildcards.study}.parquet"]
            if wildcards.study in PARAPHRASED
            else []
        ),
    output:
        prompts=f"{RESULTS}/stimuli/{{study}}.parquet",
        augmentations=f"{RESULTS}/augmentations/{{study}}.parquet",
    log:
        f"{RESULTS}/logs/stimuli/{{study}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/stimuli/{{study}}.tsv"
    wildcard_constraints:
        study=match_names(CODE_STUDIES),
    priority: BEFORE_DRAWS
    localrule: True
    conda:
        ENVIRONMENT
    params:
        settings=lambda wildcards: settings.studies[wildcards.study].to_json(CODE_FIELDS),
        folder=STIMULI_OF,
        wordnet=lambda wildcards, input: "--wordnet" if input.wordnet else "",
        paraphrases=lambda wildcards, input: "--paraphrases" if input.paraphrases else "",
        seed=settings.seed,
        version=STIMULI_VERSION,
    shell:
        """
        python -m llm_variability.stimuli \
            --study {wildcards.study:q} \
            --settings {params.settings:q} \
            --stimuli {params.folder:q} \
            --seed {params.seed:q} \
            {params.wordnet} {input.wordnet:q} \
            {params.paraphrases} {input.paraphrases:q} \
            --augmentations {output.augmentations:q} \
            --log {log:q} \
            --output {output.prompts:q}
        """


# These prompts wait for draws, those of the model that takes the personas.
rule persona_stimuli:
    input:
        tasks=NAMED_FILES,
        rewritings=f"{RESULTS}/personas/{{study}}.parquet",
    output:
        f"{RESULTS}/stimuli/{{study}}.parquet",
    log:
        f"{RESULTS}/logs/stimuli/{{study}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/stimuli/{{study}}.tsv"
    wildcard_constraints:
        study=match_names(PERSONA_STUDIES),
    priority: BEFORE_DRAWS
    localrule: True
    conda:
        ENVIRONMENT
    params:
        settings=lambda wildcards: settings.studies[wildcards.study].to_json(PERSONA_FIELDS),
        folder=STIMULI_OF,
        version=STIMULI_VERSION,
    shell:
        """
        python -m llm_variability.stimuli \
            --study {wildcards.study:q} \
            --settings {params.settings:q} \
            --stimuli {params.folder:q} \
            --rewritings {input.rewritings:q} \
            --log {log:q} \
            --output {output:q}
        """
