"""Configuration: what the results were made with, merged and with every default filled in; and
what the wildcards of all rules may be.

REQUIRED INPUTS: none
OUTPUTS:         {RESULTS}/config.yaml
"""

from llm_variability.config import CELL_PATTERN


wildcard_constraints:
    study="[^/]+",
    model="[^/]+",
    encoder="[^/]+",
    cell=CELL_PATTERN,


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
