"""Calibration: how often the tests reject and the intervals cover, where the truth is known.

No part of `all`, and it needs no model: `snakemake calibration`.

REQUIRED INPUTS: none
OUTPUTS:         {RESULTS}/calibration/calibration.{csv,svg,png,pdf}
                 {RESULTS}/calibration/summary.txt
"""

from llm_variability.calibration import VERSION as CALIBRATION_VERSION


rule simulate_calibration:
    output:
        f"{RESULTS}/calibration/calibration.csv",
    log:
        f"{RESULTS}/logs/calibration/simulate.log",
    benchmark:
        f"{RESULTS}/benchmarks/calibration/simulate.tsv"
    conda:
        ENVIRONMENT
    threads: 8
    params:
        studies=20_000,
        seed=4,
        version=[CALIBRATION_VERSION, FITS_VERSION],
    shell:
        """
        OMP_NUM_THREADS=1 \
            OPENBLAS_NUM_THREADS=1 \
            python -m llm_variability.calibration \
            --log {log:q} \
            simulate \
            --studies {params.studies:q} \
            --seed {params.seed:q} \
            --threads {threads} \
            --output {output:q}
        """


rule calibration:
    input:
        f"{RESULTS}/calibration/calibration.csv",
    output:
        svg=report(
            f"{RESULTS}/calibration/calibration.svg",
            caption="../report/calibration.rst",
            category="Calibration",
            labels={"result": "figure"},
        ),
        png=f"{RESULTS}/calibration/calibration.png",
        pdf=f"{RESULTS}/calibration/calibration.pdf",
        summary=f"{RESULTS}/calibration/summary.txt",
    log:
        f"{RESULTS}/logs/calibration/draw.log",
    benchmark:
        f"{RESULTS}/benchmarks/calibration/draw.tsv"
    conda:
        ENVIRONMENT
    params:
        folder=subpath(output.svg, parent=True),
        version=CALIBRATION_VERSION,
    shell:
        """
        python -m llm_variability.calibration \
            --log {log:q} \
            draw \
            --table {input:q} \
            --outdir {params.folder:q}
        """
