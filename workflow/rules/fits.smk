"""Fits: mixed models at every setting, on pairs and on cell means.

REQUIRED INPUTS: {RESULTS}/similarity/{study}/{model}/{encoder}.parquet
OUTPUTS:         {RESULTS}/fits/{study}/{model}/{encoder}.parquet
"""

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
            --study {wildcards.study:q} \
            --model {wildcards.model:q} \
            --measure {wildcards.encoder:q} \
            --similarity {input:q} \
            --backend {params.backend:q} \
            --cells {params.cells:q} \
            --log {log:q} \
            --output {output:q}
        """
