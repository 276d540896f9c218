"""Separation: how far apart personas are in the code they get and in the words they use.

REQUIRED INPUTS: {RESULTS}/pairs/{study}/{model}/{tsed,cosine/{encoder}}.parquet
                 {RESULTS}/{features,programs}/{study}/{model}.parquet
                 {RESULTS}/stimuli/{study}.parquet
                 {RESULTS}/wording/{study}/{style,topic_weights}.parquet
OUTPUTS:         {RESULTS}/separation/{study}/{similarity,means,leakage,confusions}.parquet

Studies are those of kind personas (PERSONA_STUDIES).
"""

from llm_variability.braces import brace_paths
from llm_variability.separation import VERSION as SEPARATION_VERSION

SEPARATED = f"{RESULTS}/separation/{{study}}"


# A family of tests spans models, so a model that is added changes the adjusted p values of all.
rule separation:
    input:
        tsed=expand(f"{RESULTS}/pairs/{{{{study}}}}/{{model}}/tsed.parquet", model=settings.models),
        cosine=expand(
            f"{RESULTS}/pairs/{{{{study}}}}/{{model}}/cosine/{{encoder}}.parquet",
            model=settings.models,
            encoder=settings.encoders,
        ),
        features=expand(
            f"{RESULTS}/features/{{{{study}}}}/{{model}}.parquet", model=settings.models
        ),
        programs=expand(
            f"{RESULTS}/programs/{{{{study}}}}/{{model}}.parquet", model=settings.models
        ),
        stimuli=f"{RESULTS}/stimuli/{{study}}.parquet",
        style=f"{RESULTS}/wording/{{study}}/style.parquet",
        topic_weights=f"{RESULTS}/wording/{{study}}/topic_weights.parquet",
    output:
        similarity=f"{SEPARATED}/similarity.parquet",
        means=f"{SEPARATED}/means.parquet",
        leakage=f"{SEPARATED}/leakage.parquet",
        confusions=f"{SEPARATED}/confusions.parquet",
    log:
        f"{RESULTS}/logs/separation/{{study}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/separation/{{study}}.tsv"
    wildcard_constraints:
        study=match_names(PERSONA_STUDIES),
    conda:
        ENVIRONMENT
    params:
        pairs=lambda wildcards, input: brace_paths([*input.tsed, *input.cosine]),
        features=lambda wildcards, input: brace_paths(input.features),
        programs=lambda wildcards, input: brace_paths(input.programs),
        measures=[*settings.similarity.variants, *settings.encoders],
        permutations=settings.separation.permutations,
        classifier_permutations=settings.separation.classifier_permutations,
        seed=settings.seed,
        version=SEPARATION_VERSION,
    shell:
        """
        python -m llm_variability.separation \
            --log {log:q} \
            --study {wildcards.study:q} \
            --pairs {params.pairs} \
            --measures {params.measures:q} \
            --features {params.features} \
            --programs {params.programs} \
            --stimuli {input.stimuli:q} \
            --style {input.style:q} \
            --topic-weights {input.topic_weights:q} \
            --permutations {params.permutations:q} \
            --classifier-permutations {params.classifier_permutations:q} \
            --seed {params.seed:q} \
            --similarity {output.similarity:q} \
            --means {output.means:q} \
            --leakage {output.leakage:q} \
            --confusions {output.confusions:q}
        """
