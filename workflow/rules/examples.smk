"""Examples: a few draws of every setting and group, chosen by how alike they are.

REQUIRED INPUTS: {RESULTS}/stimuli/{study}.parquet
                 {RESULTS}/draws/{study}/{model}/{cell}.parquet
                 {RESULTS}/similarity/{study}/{model}/{encoder}.parquet (of the first encoder), or
                 of studies of code and of personas {RESULTS}/pairs/{study}/{model}/tsed.parquet and
                 {RESULTS}/programs/{study}/{model}.parquet
OUTPUTS:         {RESULTS}/examples/{study}/{model}.parquet
"""

from llm_variability.braces import brace_paths
from llm_variability.examples import VERSION as EXAMPLES_VERSION


rule examples:
    input:
        stimuli=f"{RESULTS}/stimuli/{{study}}.parquet",
        similarity=f"{RESULTS}/similarity/{{study}}/{{model}}/{next(iter(settings.encoders))}.parquet",
        draws=expand(f"{RESULTS}/draws/{{{{study}}}}/{{{{model}}}}/{{cell}}.parquet", cell=CELLS),
        programs=[],
    output:
        f"{RESULTS}/examples/{{study}}/{{model}}.parquet",
    log:
        f"{RESULTS}/logs/examples/{{study}}/{{model}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/examples/{{study}}/{{model}}.tsv"
    wildcard_constraints:
        study=match_names(GROUP_STUDIES),
    conda:
        ENVIRONMENT
    params:
        measure=next(iter(settings.encoders)),
        draws=lambda wildcards, input: brace_paths(input.draws),
        programs="",
        version=EXAMPLES_VERSION,
    shell:
        """
        python -m llm_variability.examples \
            --log {log:q} \
            --stimuli {input.stimuli:q} \
            --similarity {input.similarity:q} \
            --measure {params.measure:q} \
            --draws {params.draws} \
            {params.programs} {input.programs:q} \
            --output {output:q}
        """


use rule examples as examples_of_programs with:
    input:
        stimuli=f"{RESULTS}/stimuli/{{study}}.parquet",
        similarity=f"{RESULTS}/pairs/{{study}}/{{model}}/tsed.parquet",
        draws=lambda wildcards: expand(
            f"{RESULTS}/draws/{{study}}/{{model}}/{{cell}}.parquet",
            study=wildcards.study,
            model=wildcards.model,
            cell=settings.cells(wildcards.study),
        ),
        programs=f"{RESULTS}/programs/{{study}}/{{model}}.parquet",
    wildcard_constraints:
        study=match_names(CODE_STUDIES + PERSONA_STUDIES),
    params:
        measure=settings.similarity.variants[0],
        draws=lambda wildcards, input: brace_paths(input.draws),
        programs="--programs",
        version=EXAMPLES_VERSION,
