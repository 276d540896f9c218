"""Fits: mixed models on pairs and on cell means, and the text level, at every setting.

REQUIRED INPUTS: {RESULTS}/similarity/{study}/{model}/{encoder}.parquet
                 {RESULTS}/sensitivity/{study}/{model}/{encoder}.parquet
                 {RESULTS}/diversity/{study}/{model}/{lexical,vendi/{encoder}}/fits.parquet
OUTPUTS:         {RESULTS}/fits/{study}/{model}/{encoder}.parquet
                 {RESULTS}/adjusted/{study}.parquet
"""

from llm_variability.braces import brace_paths
from llm_variability.fits import ADJUST_VERSION
from llm_variability.fits import VERSION as FITS_VERSION


rule fit:
    input:
        f"{RESULTS}/similarity/{{study}}/{{model}}/{{encoder}}.parquet",
    output:
        f"{RESULTS}/fits/{{study}}/{{model}}/{{encoder}}.parquet",
    log:
        f"{RESULTS}/logs/fits/{{study}}/{{model}}/{{encoder}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/fits/{{study}}/{{model}}/{{encoder}}.tsv"
    conda:
        ENVIRONMENT
    params:
        backend=settings.fits.backend,
        cells=CELLS,
        version=FITS_VERSION,
    shell:
        """
        python -m llm_variability.fits \
            --log {log:q} \
            fit \
            --study {wildcards.study:q} \
            --model {wildcards.model:q} \
            --measure {wildcards.encoder:q} \
            --similarity {input:q} \
            --backend {params.backend:q} \
            --cells {params.cells:q} \
            --output {output:q}
        """


# A family of tests spans models, so a model that is added changes the adjusted p values of all.
rule adjust:
    input:
        expand(
            [
                f"{RESULTS}/fits/{{{{study}}}}/{{model}}/{{encoder}}.parquet",
                f"{RESULTS}/sensitivity/{{{{study}}}}/{{model}}/{{encoder}}.parquet",
                f"{RESULTS}/diversity/{{{{study}}}}/{{model}}/vendi/{{encoder}}/fits.parquet",
            ],
            model=settings.models,
            encoder=settings.encoders,
        ),
        expand(
            f"{RESULTS}/diversity/{{{{study}}}}/{{model}}/lexical/fits.parquet",
            model=settings.models,
        ),
    output:
        f"{RESULTS}/adjusted/{{study}}.parquet",
    log:
        f"{RESULTS}/logs/adjusted/{{study}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/adjusted/{{study}}.tsv"
    conda:
        ENVIRONMENT
    params:
        fits=lambda wildcards, input: brace_paths(input),
        family=settings.fits.family,
        version=ADJUST_VERSION,
    shell:
        """
        python -m llm_variability.fits \
            --log {log:q} \
            adjust \
            --fits {params.fits} \
            --family {params.family:q} \
            --output {output:q}
        """
