"""Curves: how similarity falls with the rate, one number a curve, differences, mixed models.

REQUIRED INPUTS: {RESULTS}/averages/{study}/{model}/{tsed,cosine/{encoder}}.parquet
OUTPUTS:         {RESULTS}/curves/{study}/{curves,summaries,contrasts,fits}.parquet

Studies are those of kind code (CODE_STUDIES).
"""

from llm_variability.curves import VERSION as CURVES_VERSION


# A family of tests spans models, so a model that is added changes the adjusted p values of all.
rule curves:
    input:
        expand(
            f"{RESULTS}/averages/{{{{study}}}}/{{model}}/tsed.parquet",
            model=settings.models,
        ),
        expand(
            f"{RESULTS}/averages/{{{{study}}}}/{{model}}/cosine/{{encoder}}.parquet",
            model=settings.models,
            encoder=settings.encoders,
        ),
    output:
        curves=f"{RESULTS}/curves/{{study}}/curves.parquet",
        summaries=f"{RESULTS}/curves/{{study}}/summaries.parquet",
        contrasts=f"{RESULTS}/curves/{{study}}/contrasts.parquet",
        fits=f"{RESULTS}/curves/{{study}}/fits.parquet",
    log:
        f"{RESULTS}/logs/curves/{{study}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/curves/{{study}}.tsv"
    wildcard_constraints:
        study=match_names(CODE_STUDIES),
    conda:
        ENVIRONMENT
    params:
        sets=lambda wildcards: list(settings.studies[wildcards.study].tasks),
        seed=settings.seed,
        resamples=settings.curves.resamples,
        backend=settings.fits.backend,
        version=CURVES_VERSION,
    shell:
        """
        python -m llm_variability.curves \
            --log {log:q} \
            --study {wildcards.study:q} \
            --averages {input:q} \
            --sets {params.sets:q} \
            --seed {params.seed:q} \
            --resamples {params.resamples:q} \
            --backend {params.backend:q} \
            --curves {output.curves:q} \
            --summaries {output.summaries:q} \
            --contrasts {output.contrasts:q} \
            --fits {output.fits:q}
        """
