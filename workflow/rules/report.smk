"""Report: figures, tables and one self-contained page.

REQUIRED INPUTS: {RESULTS}/fits/{study}/{model}/{encoder}.parquet
                 {RESULTS}/similarity/{study}/{model}/{encoder}.parquet
                 {RESULTS}/counts/{study}/{model}.parquet
                 {RESULTS}/stimuli/{study}.parquet
                 {RESULTS}/draws/{study}/{model}/{cell}.parquet  (the last cell of the grid)
                 {RESULTS}/models/{model}.json, {RESULTS}/encoders/{encoder}.json
                 {RESULTS}/config.yaml
OUTPUTS:         {RESULTS}/figures/{study}/{model}/{encoder}-{level}.{svg,png,pdf}
                 {RESULTS}/figures/{study}/{model}/{encoder}-cosine.{svg,png,pdf}
                 {RESULTS}/tables/{fits,mean_cosine,draw_counts,determinism}.csv
                 {RESULTS}/report.html

Globals of the Snakefile: settings (config.Settings), RESULTS (the results folder), ENVIRONMENT
(the conda YAML of the environment).
"""

from llm_variability.report import VERSION as REPORT_VERSION

LEVELS = ["pairwise", "cell"]
MEASUREMENTS = {
    "study": settings.studies,
    "model": settings.models,
    "encoder": settings.encoders,
}


rule heatmap:
    input:
        fits=f"{RESULTS}/fits/{{study}}/{{model}}/{{encoder}}.parquet",
    output:
        svg=report(
            f"{RESULTS}/figures/{{study}}/{{model}}/{{encoder}}-{{level}}.svg",
            caption="../report/heatmap.rst",
            category="Heatmaps",
            subcategory="{study}",
            labels={"model": "{model}", "encoder": "{encoder}", "level": "{level}"},
        ),
        png=f"{RESULTS}/figures/{{study}}/{{model}}/{{encoder}}-{{level}}.png",
        pdf=f"{RESULTS}/figures/{{study}}/{{model}}/{{encoder}}-{{level}}.pdf",
    log:
        f"{RESULTS}/logs/report/heatmap/{{study}}/{{model}}/{{encoder}}-{{level}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/report/heatmap/{{study}}/{{model}}/{{encoder}}-{{level}}.tsv"
    wildcard_constraints:
        level="|".join(LEVELS),
    conda:
        ENVIRONMENT
    params:
        stem=subpath(output.svg, strip_suffix=".svg"),
        version=REPORT_VERSION,
    shell:
        "python -m llm_variability.report"
        " --log {log:q}"
        " heatmap"
        " --fits {input.fits:q}"
        " --level {wildcards.level:q}"
        " --stem {params.stem:q}"


rule mean_cosine:
    input:
        similarity=f"{RESULTS}/similarity/{{study}}/{{model}}/{{encoder}}.parquet",
    output:
        svg=report(
            f"{RESULTS}/figures/{{study}}/{{model}}/{{encoder}}-cosine.svg",
            caption="../report/mean_cosine.rst",
            category="Mean cosine",
            subcategory="{study}",
            labels={"model": "{model}", "encoder": "{encoder}"},
        ),
        png=f"{RESULTS}/figures/{{study}}/{{model}}/{{encoder}}-cosine.png",
        pdf=f"{RESULTS}/figures/{{study}}/{{model}}/{{encoder}}-cosine.pdf",
    log:
        f"{RESULTS}/logs/report/cosine/{{study}}/{{model}}/{{encoder}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/report/cosine/{{study}}/{{model}}/{{encoder}}.tsv"
    conda:
        ENVIRONMENT
    params:
        stem=subpath(output.svg, strip_suffix=".svg"),
        version=REPORT_VERSION,
    shell:
        "python -m llm_variability.report"
        " --log {log:q}"
        " cosine"
        " --similarity {input.similarity:q}"
        " --stem {params.stem:q}"


rule tables:
    input:
        fits=expand(f"{RESULTS}/fits/{{study}}/{{model}}/{{encoder}}.parquet", **MEASUREMENTS),
        similarity=expand(
            f"{RESULTS}/similarity/{{study}}/{{model}}/{{encoder}}.parquet", **MEASUREMENTS
        ),
        counts=expand(
            f"{RESULTS}/counts/{{study}}/{{model}}.parquet",
            study=settings.studies,
            model=settings.models,
        ),
    output:
        fits=report(
            f"{RESULTS}/tables/fits.csv",
            caption="../report/fits.rst",
            category="Tables",
            labels={"table": "mixed models"},
        ),
        mean_cosine=report(
            f"{RESULTS}/tables/mean_cosine.csv",
            caption="../report/mean_cosine_table.rst",
            category="Tables",
            labels={"table": "mean cosine"},
        ),
        draw_counts=report(
            f"{RESULTS}/tables/draw_counts.csv",
            caption="../report/draw_counts.rst",
            category="Tables",
            labels={"table": "draws"},
        ),
        determinism=report(
            f"{RESULTS}/tables/determinism.csv",
            caption="../report/determinism.rst",
            category="Tables",
            labels={"table": "determinism"},
        ),
    log:
        f"{RESULTS}/logs/report/tables.log",
    benchmark:
        f"{RESULTS}/benchmarks/report/tables.tsv"
    conda:
        ENVIRONMENT
    params:
        folder=subpath(output.fits, parent=True),
        version=REPORT_VERSION,
    shell:
        "python -m llm_variability.report"
        " --log {log:q}"
        " tables"
        " --fits {input.fits:q}"
        " --similarity {input.similarity:q}"
        " --counts {input.counts:q}"
        " --outdir {params.folder:q}"


rule report:
    input:
        tables=rules.tables.output,
        heatmaps=expand(rules.heatmap.output.svg, **MEASUREMENTS, level=LEVELS),
        cosines=expand(rules.mean_cosine.output.svg, **MEASUREMENTS),
        models=expand(f"{RESULTS}/models/{{model}}.json", model=settings.models),
        encoders=expand(f"{RESULTS}/encoders/{{encoder}}.json", encoder=settings.encoders),
        draws=expand(
            f"{RESULTS}/draws/{{study}}/{{model}}/{{cell}}.parquet",
            study=settings.studies,
            model=settings.models,
            cell=settings.grid.cells()[-1],
        ),
        stimuli=expand(f"{RESULTS}/stimuli/{{study}}.parquet", study=settings.studies),
        config=f"{RESULTS}/config.yaml",
    output:
        page=report(
            f"{RESULTS}/report.html",
            caption="../report/page.rst",
            category="Report",
            labels={"page": "whole report"},
        ),
    log:
        f"{RESULTS}/logs/report/page.log",
    benchmark:
        f"{RESULTS}/benchmarks/report/page.tsv"
    conda:
        ENVIRONMENT
    params:
        version=REPORT_VERSION,
    shell:
        "python -m llm_variability.report"
        " --log {log:q}"
        " page"
        " --tables {input.tables:q}"
        " --figures {input.heatmaps:q} {input.cosines:q}"
        " --manifests {input.models:q} {input.encoders:q}"
        " --draws {input.draws:q}"
        " --stimuli {input.stimuli:q}"
        " --config {input.config:q}"
        " --output {output.page:q}"
