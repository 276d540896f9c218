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
                 {RESULTS}/figures/{study}/{encoder}-{level}-{signals,trend}.{svg,png,pdf}
                 {RESULTS}/figures/{study}/{encoder}-cosine.{svg,png,pdf}
                 {RESULTS}/figures/{study}/output_length.{svg,png,pdf}
                 {RESULTS}/tables/*.csv (the tables of report.summaries.SCHEMAS)
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


# All models of a study and encoder are drawn by one job, since starting one takes longer.
rule model_figures:
    input:
        fits=expand(
            f"{RESULTS}/fits/{{{{study}}}}/{{model}}/{{{{encoder}}}}.parquet",
            model=settings.models,
        ),
        similarity=expand(
            f"{RESULTS}/similarity/{{{{study}}}}/{{model}}/{{{{encoder}}}}.parquet",
            model=settings.models,
        ),
    output:
        pairwise_signals=report(
            f"{RESULTS}/figures/{{study}}/{{encoder}}-pairwise-signals.svg",
            caption="../report/signals_pairwise.rst",
            category="All models",
            subcategory="{study}",
            labels={"figure": "significant settings", "encoder": "{encoder}", "level": "pairwise"},
        ),
        cell_signals=report(
            f"{RESULTS}/figures/{{study}}/{{encoder}}-cell-signals.svg",
            caption="../report/signals_cell.rst",
            category="All models",
            subcategory="{study}",
            labels={"figure": "significant settings", "encoder": "{encoder}", "level": "cell"},
        ),
        pairwise_trend=report(
            f"{RESULTS}/figures/{{study}}/{{encoder}}-pairwise-trend.svg",
            caption="../report/trend.rst",
            category="All models",
            subcategory="{study}",
            labels={"figure": "by temperature", "encoder": "{encoder}", "level": "pairwise"},
        ),
        cell_trend=report(
            f"{RESULTS}/figures/{{study}}/{{encoder}}-cell-trend.svg",
            caption="../report/trend.rst",
            category="All models",
            subcategory="{study}",
            labels={"figure": "by temperature", "encoder": "{encoder}", "level": "cell"},
        ),
        cosine=report(
            f"{RESULTS}/figures/{{study}}/{{encoder}}-cosine.svg",
            caption="../report/models_cosine.rst",
            category="All models",
            subcategory="{study}",
            labels={"figure": "mean cosine", "encoder": "{encoder}", "level": ""},
        ),
        others=expand(
            f"{RESULTS}/figures/{{{{study}}}}/{{{{encoder}}}}-{{kind}}.{{suffix}}",
            kind=[
                *(f"{level}-{kind}" for level in LEVELS for kind in ("signals", "trend")),
                "cosine",
            ],
            suffix=["png", "pdf"],
        ),
    log:
        f"{RESULTS}/logs/report/models/{{study}}/{{encoder}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/report/models/{{study}}/{{encoder}}.tsv"
    conda:
        ENVIRONMENT
    params:
        stem=subpath(output.cosine, strip_suffix="-cosine.svg"),
        version=REPORT_VERSION,
    shell:
        "python -m llm_variability.report"
        " --log {log:q}"
        " models"
        " --fits {input.fits:q}"
        " --similarity {input.similarity:q}"
        " --stem {params.stem:q}"


rule output_length:
    input:
        expand(f"{RESULTS}/counts/{{{{study}}}}/{{model}}.parquet", model=settings.models),
    output:
        svg=report(
            f"{RESULTS}/figures/{{study}}/output_length.svg",
            caption="../report/output_length.rst",
            category="All models",
            subcategory="{study}",
            labels={"figure": "length of answers", "encoder": "", "level": ""},
        ),
        png=f"{RESULTS}/figures/{{study}}/output_length.png",
        pdf=f"{RESULTS}/figures/{{study}}/output_length.pdf",
    log:
        f"{RESULTS}/logs/report/length/{{study}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/report/length/{{study}}.tsv"
    conda:
        ENVIRONMENT
    params:
        stem=subpath(output.svg, strip_suffix=".svg"),
        version=REPORT_VERSION,
    shell:
        "python -m llm_variability.report"
        " --log {log:q}"
        " lengths"
        " --counts {input:q}"
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
        stimuli=expand(f"{RESULTS}/stimuli/{{study}}.parquet", study=settings.studies),
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
        signals=report(
            f"{RESULTS}/tables/signals.csv",
            caption="../report/signals.rst",
            category="Tables",
            labels={"table": "significant settings"},
        ),
        default_estimates=report(
            f"{RESULTS}/tables/default_estimates.csv",
            caption="../report/default_estimates.rst",
            category="Tables",
            labels={"table": "default setting"},
        ),
        encoder_agreement=report(
            f"{RESULTS}/tables/encoder_agreement.csv",
            caption="../report/encoder_agreement.rst",
            category="Tables",
            labels={"table": "agreement of encoders"},
        ),
        level_agreement=report(
            f"{RESULTS}/tables/level_agreement.csv",
            caption="../report/level_agreement.rst",
            category="Tables",
            labels={"table": "pairs and cell means"},
        ),
        temperature_estimates=report(
            f"{RESULTS}/tables/temperature_estimates.csv",
            caption="../report/temperature_estimates.rst",
            category="Tables",
            labels={"table": "estimates by temperature"},
        ),
        temperature_cosine=report(
            f"{RESULTS}/tables/temperature_cosine.csv",
            caption="../report/temperature_cosine.rst",
            category="Tables",
            labels={"table": "mean cosine by temperature"},
        ),
        output_length=report(
            f"{RESULTS}/tables/output_length.csv",
            caption="../report/output_length_table.rst",
            category="Tables",
            labels={"table": "length of answers"},
        ),
        over_long=report(
            f"{RESULTS}/tables/over_long.csv",
            caption="../report/over_long.rst",
            category="Tables",
            labels={"table": "texts cut by encoders"},
        ),
        name_selection=report(
            f"{RESULTS}/tables/name_selection.csv",
            caption="../report/name_selection.rst",
            category="Tables",
            labels={"table": "names"},
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
        " --stimuli {input.stimuli:q}"
        " --outdir {params.folder:q}"


rule report:
    input:
        tables=rules.tables.output,
        heatmaps=expand(rules.heatmap.output.svg, **MEASUREMENTS, level=LEVELS),
        cosines=expand(rules.mean_cosine.output.svg, **MEASUREMENTS),
        of_models=expand(
            [
                rules.model_figures.output.pairwise_signals,
                rules.model_figures.output.cell_signals,
                rules.model_figures.output.pairwise_trend,
                rules.model_figures.output.cell_trend,
                rules.model_figures.output.cosine,
            ],
            study=settings.studies,
            encoder=settings.encoders,
        ),
        lengths=expand(rules.output_length.output.svg, study=settings.studies),
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
        " --study-figures {input.of_models:q} {input.lengths:q}"
        " --manifests {input.models:q} {input.encoders:q}"
        " --draws {input.draws:q}"
        " --stimuli {input.stimuli:q}"
        " --config {input.config:q}"
        " --output {output.page:q}"
