"""Linguistics: what the prompts of personas speak of, and how.

REQUIRED INPUTS: {RESULTS}/personas/{study}.parquet
                 {RESULTS}/stimuli/{study}.parquet
OUTPUTS:         {RESULTS}/wording/{study}/{style,entities,cooccurrences,map,shared,topics,
                 topic_weights}.parquet

Studies are those of kind personas (PERSONA_STUDIES).
"""

from llm_variability.linguistics import VERSION as LINGUISTICS_VERSION

WORDING = f"{RESULTS}/wording/{{study}}"


rule linguistics:
    input:
        rewritings=f"{RESULTS}/personas/{{study}}.parquet",
        stimuli=f"{RESULTS}/stimuli/{{study}}.parquet",
    output:
        style=f"{WORDING}/style.parquet",
        entities=f"{WORDING}/entities.parquet",
        cooccurrences=f"{WORDING}/cooccurrences.parquet",
        map=f"{WORDING}/map.parquet",
        shared=f"{WORDING}/shared.parquet",
        topics=f"{WORDING}/topics.parquet",
        topic_weights=f"{WORDING}/topic_weights.parquet",
    log:
        f"{RESULTS}/logs/wording/{{study}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/wording/{{study}}.tsv"
    wildcard_constraints:
        study=match_names(PERSONA_STUDIES),
    conda:
        ENVIRONMENT
    params:
        topics=settings.separation.topics,
        permutations=settings.separation.permutations,
        seed=settings.seed,
        version=LINGUISTICS_VERSION,
    shell:
        """
        python -m llm_variability.linguistics \
            --log {log:q} \
            --rewritings {input.rewritings:q} \
            --stimuli {input.stimuli:q} \
            --topics {params.topics:q} \
            --permutations {params.permutations:q} \
            --seed {params.seed:q} \
            --style {output.style:q} \
            --entities {output.entities:q} \
            --cooccurrences {output.cooccurrences:q} \
            --map {output.map:q} \
            --shared {output.shared:q} \
            --topics-table {output.topics:q} \
            --topic-weights {output.topic_weights:q}
        """
