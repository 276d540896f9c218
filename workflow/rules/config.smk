"""Configuration: what the results were made with, merged and with every default filled in; and
what the wildcards of all rules may be.

REQUIRED INPUTS: none
OUTPUTS:         {RESULTS}/config.yaml
"""

from llm_variability.config import CELL_PATTERN, SETTING_PATTERN, match_names
from llm_variability.draws.engine import engine_version

# Studies of labels and names go through the same rules; those of code and of personas have rules of
# their own between the draws and the report.
GROUP_STUDIES = settings.studies_of("labels", "names")
CODE_STUDIES = settings.studies_of("code")
PERSONA_STUDIES = settings.studies_of("personas")
PARAPHRASED = [study for study in CODE_STUDIES if settings.studies[study].paraphrase]
ON_GPU = settings.environment == "gpu" or (engine_version() or "").startswith("vllm ")
CELLS = settings.grid.cells()


wildcard_constraints:
    study="[^/]+",
    model="[^/]+",
    encoder="[^/]+",
    cell=CELL_PATTERN,
    setting=SETTING_PATTERN,


rule configuration:
    output:
        f"{RESULTS}/config.yaml",
    log:
        f"{RESULTS}/logs/configuration.log",
    benchmark:
        f"{RESULTS}/benchmarks/configuration.tsv"
    localrule: True
    conda:
        ENVIRONMENT
    params:
        settings=settings.to_json(),
    shell:
        """
        python -m llm_variability.config record {params.settings:q} {output:q} 2>{log:q}
        """
