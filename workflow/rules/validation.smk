"""Validation: the measurement beside published values, on published texts. No part of `all`.

REQUIRED INPUTS: the file of `validation.texts`, or else github.com
                 {RESULTS}/encoders/{encoder}.json
OUTPUTS:         {RESULTS}/validation/lee2024/texts.parquet
                 {RESULTS}/validation/lee2024/{encoder}/embeddings.parquet
                 {RESULTS}/validation/lee2024/{encoder}/{estimates,mean_cosine,comparison,levels}.csv
                 {RESULTS}/validation/lee2024/{encoder}/comparison.{svg,png,pdf}
                 {RESULTS}/validation/lee2024/{encoder}/summary.txt

Every text is embedded once; samples are drawn from the vectors.
"""

from llm_variability.similarity import EMBED_VERSION
from llm_variability.validation import TEXTS_VERSION
from llm_variability.validation import VERSION as VALIDATION_VERSION

VALIDATED_ENCODER = settings.validation.encoder or next(iter(settings.encoders))
LEE2024 = f"{RESULTS}/validation/lee2024"
LEE2024_RESULTS = f"{LEE2024}/{VALIDATED_ENCODER}"


rule fetch_lee2024:
    input:
        texts=settings.validation.texts or [],
    output:
        f"{LEE2024}/texts.parquet",
    log:
        f"{RESULTS}/logs/validation/lee2024/fetch.log",
    benchmark:
        f"{RESULTS}/benchmarks/validation/lee2024/fetch.tsv"
    localrule: True
    conda:
        ENVIRONMENT
    params:
        version=TEXTS_VERSION,
    shell:
        """
        python -m llm_variability.validation \
            --log {log:q} \
            fetch \
            --texts {input.texts:q} \
            --output {output:q}
        """


rule embed_lee2024:
    input:
        texts=f"{LEE2024}/texts.parquet",
        manifest=f"{RESULTS}/encoders/{VALIDATED_ENCODER}.json",
    output:
        f"{LEE2024_RESULTS}/embeddings.parquet",
    log:
        f"{RESULTS}/logs/validation/lee2024/{VALIDATED_ENCODER}/embed.log",
    benchmark:
        f"{RESULTS}/benchmarks/validation/lee2024/{VALIDATED_ENCODER}/embed.tsv"
    conda:
        ENVIRONMENT
    threads: ENCODER_THREADS
    resources:
        engine=1,
        gpu=int(ON_GPU),
    params:
        encoder=VALIDATED_ENCODER,
        settings=settings.encoders[VALIDATED_ENCODER].to_json(),
        version=[TEXTS_VERSION, EMBED_VERSION],
    shell:
        """
        python -m llm_variability.validation \
            --log {log:q} \
            embed \
            --encoder {params.encoder:q} \
            --settings {params.settings:q} \
            --manifest {input.manifest:q} \
            --texts {input.texts:q} \
            --output {output:q}
        """


rule validate_lee2024:
    input:
        texts=f"{LEE2024}/texts.parquet",
        embeddings=f"{LEE2024_RESULTS}/embeddings.parquet",
    output:
        svg=report(
            f"{LEE2024_RESULTS}/comparison.svg",
            caption="../report/validation.rst",
            category="Validation",
            labels={"encoder": VALIDATED_ENCODER, "result": "figure"},
        ),
        png=f"{LEE2024_RESULTS}/comparison.png",
        pdf=f"{LEE2024_RESULTS}/comparison.pdf",
        comparison=report(
            f"{LEE2024_RESULTS}/comparison.csv",
            caption="../report/validation_comparison.rst",
            category="Validation",
            labels={"encoder": VALIDATED_ENCODER, "result": "published values"},
        ),
        estimates=report(
            f"{LEE2024_RESULTS}/estimates.csv",
            caption="../report/validation_estimates.rst",
            category="Validation",
            labels={"encoder": VALIDATED_ENCODER, "result": "mixed models"},
        ),
        levels=report(
            f"{LEE2024_RESULTS}/levels.csv",
            caption="../report/validation_levels.rst",
            category="Validation",
            labels={"encoder": VALIDATED_ENCODER, "result": "levels of inference"},
        ),
        mean_cosine=f"{LEE2024_RESULTS}/mean_cosine.csv",
        summary=f"{LEE2024_RESULTS}/summary.txt",
    log:
        f"{RESULTS}/logs/validation/lee2024/{VALIDATED_ENCODER}/compare.log",
    benchmark:
        f"{RESULTS}/benchmarks/validation/lee2024/{VALIDATED_ENCODER}/compare.tsv"
    conda:
        ENVIRONMENT
    params:
        encoder=VALIDATED_ENCODER,
        per_cell=settings.validation.per_cell,
        seeds=settings.validation.seeds,
        backend=settings.fits.backend,
        folder=subpath(output.svg, parent=True),
        version=[VALIDATION_VERSION, FITS_VERSION, COSINE_VERSION],
    shell:
        """
        python -m llm_variability.validation \
            --log {log:q} \
            compare \
            --texts {input.texts:q} \
            --embeddings {input.embeddings:q} \
            --per-cell {params.per_cell:q} \
            --seeds {params.seeds:q} \
            --backend {params.backend:q} \
            --outdir {params.folder:q}
        """
