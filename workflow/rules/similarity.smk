"""Similarity: unit vectors of the distinct texts, and each text's cosines to its mates.

REQUIRED INPUTS: {RESULTS}/draws/{study}/{model}/{cell}.parquet
                 {RESULTS}/encoders/{encoder}.json
OUTPUTS:         {RESULTS}/embeddings/{study}/{model}/{encoder}.parquet
                 {RESULTS}/similarity/{study}/{model}/{encoder}.parquet

Vectors are kept for all studies and models, so that each text is encoded once an encoder.
"""

from llm_variability.braces import brace_paths
from llm_variability.similarity import COSINE_VERSION, EMBED_VERSION

ENCODER_THREADS = 8  # or as many cores as there are; an encoder on a CPU uses one each
EXCLUSION = {
    name: "" if study.include_truncated else "--exclude-truncated"
    for name, study in settings.studies.items()
}


# An encoder on a GPU takes the device from the engine, so it comes after all draws that can go on.
rule embed:
    input:
        draws=expand(f"{RESULTS}/draws/{{{{study}}}}/{{{{model}}}}/{{cell}}.parquet", cell=CELLS),
        manifest=f"{RESULTS}/encoders/{{encoder}}.json",
    output:
        f"{RESULTS}/embeddings/{{study}}/{{model}}/{{encoder}}.parquet",
    log:
        f"{RESULTS}/logs/embeddings/{{study}}/{{model}}/{{encoder}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/embeddings/{{study}}/{{model}}/{{encoder}}.tsv"
    wildcard_constraints:
        study=match_names(GROUP_STUDIES),
    conda:
        ENVIRONMENT
    threads: ENCODER_THREADS
    resources:
        engine=1,
        gpu=int(ON_GPU),
    params:
        settings=lambda wildcards: settings.encoders[wildcards.encoder].to_json(),
        draws=lambda wildcards, input: brace_paths(input.draws),
        version=EMBED_VERSION,
    shell:
        """
        python -m llm_variability.similarity \
            --log {log:q} \
            embed \
            --encoder {wildcards.encoder:q} \
            --settings {params.settings:q} \
            --manifest {input.manifest:q} \
            --draws {params.draws} \
            --output {output:q}
        """


rule cosine:
    input:
        draws=expand(f"{RESULTS}/draws/{{{{study}}}}/{{{{model}}}}/{{cell}}.parquet", cell=CELLS),
        embeddings=f"{RESULTS}/embeddings/{{study}}/{{model}}/{{encoder}}.parquet",
    output:
        f"{RESULTS}/similarity/{{study}}/{{model}}/{{encoder}}.parquet",
    log:
        f"{RESULTS}/logs/similarity/{{study}}/{{model}}/{{encoder}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/similarity/{{study}}/{{model}}/{{encoder}}.tsv"
    conda:
        ENVIRONMENT
    params:
        draws=lambda wildcards, input: brace_paths(input.draws),
        truncated=lambda wildcards: EXCLUSION[wildcards.study],
        version=COSINE_VERSION,
    shell:
        """
        python -m llm_variability.similarity \
            --log {log:q} \
            cosine \
            --embeddings {input.embeddings:q} \
            --draws {params.draws} \
            {params.truncated} \
            --output {output:q}
        """
