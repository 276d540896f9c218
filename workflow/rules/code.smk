"""Code: the programs in a model's replies, and how alike pairs of them are.

REQUIRED INPUTS: {RESULTS}/augmentations/{study}.parquet
                 {RESULTS}/draws/{study}/{model}/{cell}.parquet
                 {RESULTS}/encoders/{encoder}.json
OUTPUTS:         {RESULTS}/programs/{study}/{model}.parquet
                 {RESULTS}/extractions/{study}/{model}.parquet
                 {RESULTS}/embeddings/{study}/{model}/{encoder}.parquet
                 {RESULTS}/{pairs,averages}/{study}/{model}/{tsed,cosine/{encoder}}.parquet
                 of studies of personas, where there are neither augmentations nor averages:
                 {RESULTS}/features/{study}/{model}.parquet

Studies are those of kinds code (CODE_STUDIES) and personas (PERSONA_STUDIES).
"""

from llm_variability.braces import brace_paths
from llm_variability.code import (
    COSINE_VERSION as CODE_COSINE_VERSION,
    EXTRACT_VERSION,
    FEATURES_VERSION,
    PROMPT_COSINE_VERSION,
    PROMPT_TSED_VERSION,
    TSED_VERSION,
)
from llm_variability.config_code import Extraction
from llm_variability.similarity import EMBED_VERSION

TREE_THREADS = 8  # or as many cores as there are


rule extract_programs:
    input:
        draws=lambda wildcards: expand(
            f"{RESULTS}/draws/{{study}}/{{model}}/{{cell}}.parquet",
            study=wildcards.study,
            model=wildcards.model,
            cell=settings.cells(wildcards.study),
        ),
    output:
        programs=f"{RESULTS}/programs/{{study}}/{{model}}.parquet",
        counts=f"{RESULTS}/extractions/{{study}}/{{model}}.parquet",
    log:
        f"{RESULTS}/logs/programs/{{study}}/{{model}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/programs/{{study}}/{{model}}.tsv"
    wildcard_constraints:
        study=match_names(CODE_STUDIES + PERSONA_STUDIES),
    conda:
        ENVIRONMENT
    params:
        draws=lambda wildcards, input: brace_paths(input.draws),
        extraction=lambda wildcards: (
            settings.studies[wildcards.study].extraction or Extraction()
        ).to_json(),
        max_nodes=settings.similarity.max_nodes,
        version=EXTRACT_VERSION,
    shell:
        """
        python -m llm_variability.code \
            --log {log:q} \
            extract \
            --draws {params.draws} \
            --extraction {params.extraction:q} \
            --max-nodes {params.max_nodes:q} \
            --output {output.programs:q} \
            --counts {output.counts:q}
        """


# An encoder on a GPU takes the device from the engine, so it comes after all draws that can go on.
rule embed_programs:
    input:
        programs=f"{RESULTS}/programs/{{study}}/{{model}}.parquet",
        manifest=f"{RESULTS}/encoders/{{encoder}}.json",
    output:
        f"{RESULTS}/embeddings/{{study}}/{{model}}/{{encoder}}.parquet",
    log:
        f"{RESULTS}/logs/embeddings/{{study}}/{{model}}/{{encoder}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/embeddings/{{study}}/{{model}}/{{encoder}}.tsv"
    wildcard_constraints:
        study=match_names(CODE_STUDIES + PERSONA_STUDIES),
    conda:
        ENVIRONMENT
    threads: ENCODER_THREADS
    resources:
        engine=1,
        gpu=int(ON_GPU),
    params:
        settings=lambda wildcards: settings.encoders[wildcards.encoder].to_json(),
        version=EMBED_VERSION,
    shell:
        """
        python -m llm_variability.similarity \
            --log {log:q} \
            embed \
            --encoder {wildcards.encoder:q} \
            --settings {params.settings:q} \
            --manifest {input.manifest:q} \
            --programs {input.programs:q} \
            --output {output:q}
        """


rule tsed:
    input:
        programs=f"{RESULTS}/programs/{{study}}/{{model}}.parquet",
        augmentations=f"{RESULTS}/augmentations/{{study}}.parquet",
    output:
        pairs=f"{RESULTS}/pairs/{{study}}/{{model}}/tsed.parquet",
        averages=f"{RESULTS}/averages/{{study}}/{{model}}/tsed.parquet",
    log:
        f"{RESULTS}/logs/pairs/{{study}}/{{model}}/tsed.log",
    benchmark:
        f"{RESULTS}/benchmarks/pairs/{{study}}/{{model}}/tsed.tsv"
    wildcard_constraints:
        study=match_names(CODE_STUDIES),
    conda:
        ENVIRONMENT
    threads: TREE_THREADS
    params:
        variants=settings.similarity.variants,
        costs=("null" if settings.similarity.costs is None else settings.similarity.costs.to_json()),
        max_nodes=settings.similarity.max_nodes,
        floor_tasks=settings.similarity.floor_tasks,
        seed=settings.seed,
        compiled=f"{RESULTS}/compiled",
        version=TSED_VERSION,
    shell:
        """
        python -m llm_variability.code \
            --log {log:q} \
            tsed \
            --programs {input.programs:q} \
            --augmentations {input.augmentations:q} \
            --variants {params.variants:q} \
            --costs {params.costs:q} \
            --max-nodes {params.max_nodes:q} \
            --floor-tasks {params.floor_tasks:q} \
            --seed {params.seed:q} \
            --threads {threads} \
            --compiled {params.compiled:q} \
            --pairs {output.pairs:q} \
            --averages {output.averages:q}
        """


rule code_cosine:
    input:
        programs=f"{RESULTS}/programs/{{study}}/{{model}}.parquet",
        augmentations=f"{RESULTS}/augmentations/{{study}}.parquet",
        embeddings=f"{RESULTS}/embeddings/{{study}}/{{model}}/{{encoder}}.parquet",
    output:
        pairs=f"{RESULTS}/pairs/{{study}}/{{model}}/cosine/{{encoder}}.parquet",
        averages=f"{RESULTS}/averages/{{study}}/{{model}}/cosine/{{encoder}}.parquet",
    log:
        f"{RESULTS}/logs/pairs/{{study}}/{{model}}/cosine/{{encoder}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/pairs/{{study}}/{{model}}/cosine/{{encoder}}.tsv"
    wildcard_constraints:
        study=match_names(CODE_STUDIES),
    conda:
        ENVIRONMENT
    params:
        floor_tasks=settings.similarity.floor_tasks,
        seed=settings.seed,
        version=CODE_COSINE_VERSION,
    shell:
        """
        python -m llm_variability.code \
            --log {log:q} \
            cosine \
            --programs {input.programs:q} \
            --augmentations {input.augmentations:q} \
            --embeddings {input.embeddings:q} \
            --encoder {wildcards.encoder:q} \
            --floor-tasks {params.floor_tasks:q} \
            --seed {params.seed:q} \
            --pairs {output.pairs:q} \
            --averages {output.averages:q}
        """


rule features:
    input:
        draws=lambda wildcards: expand(
            f"{RESULTS}/draws/{{study}}/{{model}}/{{cell}}.parquet",
            study=wildcards.study,
            model=wildcards.model,
            cell=settings.cells(wildcards.study),
        ),
        programs=f"{RESULTS}/programs/{{study}}/{{model}}.parquet",
    output:
        f"{RESULTS}/features/{{study}}/{{model}}.parquet",
    log:
        f"{RESULTS}/logs/features/{{study}}/{{model}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/features/{{study}}/{{model}}.tsv"
    wildcard_constraints:
        study=match_names(PERSONA_STUDIES),
    conda:
        ENVIRONMENT
    params:
        draws=lambda wildcards, input: brace_paths(input.draws),
        version=FEATURES_VERSION,
    shell:
        """
        python -m llm_variability.code \
            --log {log:q} \
            features \
            --draws {params.draws} \
            --programs {input.programs:q} \
            --output {output:q}
        """


rule prompt_tsed:
    input:
        programs=f"{RESULTS}/programs/{{study}}/{{model}}.parquet",
    output:
        f"{RESULTS}/pairs/{{study}}/{{model}}/tsed.parquet",
    log:
        f"{RESULTS}/logs/pairs/{{study}}/{{model}}/tsed.log",
    benchmark:
        f"{RESULTS}/benchmarks/pairs/{{study}}/{{model}}/tsed.tsv"
    wildcard_constraints:
        study=match_names(PERSONA_STUDIES),
    conda:
        ENVIRONMENT
    threads: TREE_THREADS
    params:
        variants=settings.similarity.variants,
        costs=("null" if settings.similarity.costs is None else settings.similarity.costs.to_json()),
        max_nodes=settings.similarity.max_nodes,
        compiled=f"{RESULTS}/compiled",
        version=PROMPT_TSED_VERSION,
    shell:
        """
        python -m llm_variability.code \
            --log {log:q} \
            prompt-tsed \
            --programs {input.programs:q} \
            --variants {params.variants:q} \
            --costs {params.costs:q} \
            --max-nodes {params.max_nodes:q} \
            --threads {threads} \
            --compiled {params.compiled:q} \
            --pairs {output:q}
        """


rule prompt_cosine:
    input:
        programs=f"{RESULTS}/programs/{{study}}/{{model}}.parquet",
        embeddings=f"{RESULTS}/embeddings/{{study}}/{{model}}/{{encoder}}.parquet",
    output:
        f"{RESULTS}/pairs/{{study}}/{{model}}/cosine/{{encoder}}.parquet",
    log:
        f"{RESULTS}/logs/pairs/{{study}}/{{model}}/cosine/{{encoder}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/pairs/{{study}}/{{model}}/cosine/{{encoder}}.tsv"
    wildcard_constraints:
        study=match_names(PERSONA_STUDIES),
    conda:
        ENVIRONMENT
    params:
        version=PROMPT_COSINE_VERSION,
    shell:
        """
        python -m llm_variability.code \
            --log {log:q} \
            prompt-cosine \
            --programs {input.programs:q} \
            --embeddings {input.embeddings:q} \
            --encoder {wildcards.encoder:q} \
            --pairs {output:q}
        """
