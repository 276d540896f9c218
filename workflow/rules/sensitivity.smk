"""Sensitivity: tests of equal dispersion, contrasts at equal length, contrasts of uncut texts.

REQUIRED INPUTS: {RESULTS}/draws/{study}/{model}/{cell}.parquet
                 {RESULTS}/embeddings/{study}/{model}/{encoder}.parquet
                 {RESULTS}/similarity/{study}/{model}/{encoder}.parquet
OUTPUTS:         {RESULTS}/sensitivity/{study}/{model}/{encoder}.parquet
"""

from llm_variability.braces import brace_paths
from llm_variability.sensitivity import VERSION as SENSITIVITY_VERSION


rule analyse_sensitivity:
    input:
        draws=expand(f"{RESULTS}/draws/{{{{study}}}}/{{{{model}}}}/{{cell}}.parquet", cell=CELLS),
        embeddings=f"{RESULTS}/embeddings/{{study}}/{{model}}/{{encoder}}.parquet",
        similarity=f"{RESULTS}/similarity/{{study}}/{{model}}/{{encoder}}.parquet",
    output:
        f"{RESULTS}/sensitivity/{{study}}/{{model}}/{{encoder}}.parquet",
    log:
        f"{RESULTS}/logs/sensitivity/{{study}}/{{model}}/{{encoder}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/sensitivity/{{study}}/{{model}}/{{encoder}}.tsv"
    conda:
        ENVIRONMENT
    params:
        draws=lambda wildcards, input: brace_paths(input.draws),
        permutations=settings.sensitivity.permutations,
        seed=settings.seed,
        cells=CELLS,
        version=SENSITIVITY_VERSION,
    shell:
        """
        python -m llm_variability.sensitivity \
            --study {wildcards.study:q} \
            --model {wildcards.model:q} \
            --measure {wildcards.encoder:q} \
            --draws {params.draws} \
            --embeddings {input.embeddings:q} \
            --similarity {input.similarity:q} \
            --permutations {params.permutations} \
            --seed {params.seed} \
            --cells {params.cells:q} \
            --log {log:q} \
            --output {output:q}
        """
