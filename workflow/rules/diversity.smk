"""Diversity: measures without an encoder, the Vendi score, and the contrasts of both.

REQUIRED INPUTS: {RESULTS}/draws/{study}/{model}/{cell}.parquet
                 {RESULTS}/embeddings/{study}/{model}/{encoder}.parquet
OUTPUTS:         {RESULTS}/diversity/{study}/{model}/lexical/{values,fits}.parquet
                 {RESULTS}/diversity/{study}/{model}/vendi/{encoder}/{values,fits}.parquet
"""

from llm_variability.braces import brace_paths
from llm_variability.diversity import VERSION as DIVERSITY_VERSION


rule lexical_diversity:
    input:
        draws=expand(f"{RESULTS}/draws/{{{{study}}}}/{{{{model}}}}/{{cell}}.parquet", cell=CELLS),
    output:
        values=f"{RESULTS}/diversity/{{study}}/{{model}}/lexical/values.parquet",
        fits=f"{RESULTS}/diversity/{{study}}/{{model}}/lexical/fits.parquet",
    log:
        f"{RESULTS}/logs/diversity/{{study}}/{{model}}/lexical.log",
    benchmark:
        f"{RESULTS}/benchmarks/diversity/{{study}}/{{model}}/lexical.tsv"
    conda:
        ENVIRONMENT
    params:
        draws=lambda wildcards, input: brace_paths(input.draws),
        cells=CELLS,
        truncated=lambda wildcards: EXCLUSION[wildcards.study],
        version=DIVERSITY_VERSION,
    shell:
        """
        python -m llm_variability.diversity \
            --log {log:q} \
            lexical \
            --study {wildcards.study:q} \
            --model {wildcards.model:q} \
            --draws {params.draws} \
            --cells {params.cells:q} \
            {params.truncated} \
            --values {output.values:q} \
            --output {output.fits:q}
        """


rule vendi_score:
    input:
        draws=expand(f"{RESULTS}/draws/{{{{study}}}}/{{{{model}}}}/{{cell}}.parquet", cell=CELLS),
        embeddings=f"{RESULTS}/embeddings/{{study}}/{{model}}/{{encoder}}.parquet",
    output:
        values=f"{RESULTS}/diversity/{{study}}/{{model}}/vendi/{{encoder}}/values.parquet",
        fits=f"{RESULTS}/diversity/{{study}}/{{model}}/vendi/{{encoder}}/fits.parquet",
    log:
        f"{RESULTS}/logs/diversity/{{study}}/{{model}}/vendi/{{encoder}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/diversity/{{study}}/{{model}}/vendi/{{encoder}}.tsv"
    conda:
        ENVIRONMENT
    params:
        draws=lambda wildcards, input: brace_paths(input.draws),
        cells=CELLS,
        truncated=lambda wildcards: EXCLUSION[wildcards.study],
        version=DIVERSITY_VERSION,
    shell:
        """
        python -m llm_variability.diversity \
            --log {log:q} \
            vendi \
            --measure {wildcards.encoder:q} \
            --embeddings {input.embeddings:q} \
            --study {wildcards.study:q} \
            --model {wildcards.model:q} \
            --draws {params.draws} \
            --cells {params.cells:q} \
            {params.truncated} \
            --values {output.values:q} \
            --output {output.fits:q}
        """
