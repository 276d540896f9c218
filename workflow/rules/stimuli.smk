"""Stimuli: the prompts of each study.

REQUIRED INPUTS: the study's stimuli file (`studies.{study}.stimuli`) and the list it names, if any
OUTPUTS:         {RESULTS}/stimuli/{study}.parquet
"""

from llm_variability.devices import ALL_ENGINES, BEFORE_DRAWS
from llm_variability.stimuli import STUDY_FIELDS, VERSION as STIMULI_VERSION
from llm_variability.stimuli.registry import list_named_files


rule stimuli:
    input:
        stimuli=lambda wildcards: find_resource(settings.studies[wildcards.study].stimuli, HOME),
        lists=lambda wildcards: list_named_files(
            find_resource(settings.studies[wildcards.study].stimuli, HOME),
            settings.studies[wildcards.study],
        ),
    output:
        f"{RESULTS}/stimuli/{{study}}.parquet",
    log:
        f"{RESULTS}/logs/stimuli/{{study}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/stimuli/{{study}}.tsv"
    priority: BEFORE_DRAWS
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
