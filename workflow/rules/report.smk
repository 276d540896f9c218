"""Report: figures, CSV tables and one self-contained page.

REQUIRED INPUTS: {RESULTS}/fits/{study}/{model}/{encoder}.parquet
                 {RESULTS}/adjusted/{study}.parquet
                 {RESULTS}/similarity/{study}/{model}/{encoder}.parquet
                 {RESULTS}/diversity/{study}/{model}/lexical/values.parquet
                 {RESULTS}/diversity/{study}/{model}/vendi/{encoder}/values.parquet
                 {RESULTS}/counts/{study}/{model}.parquet
                 {RESULTS}/stimuli/{study}.parquet
                 {RESULTS}/draws/{study}/{model}/{cell}.parquet  (the last cell of the grid)
                 {RESULTS}/models/{model}.json, {RESULTS}/encoders/{encoder}.json
                 {RESULTS}/examples/{study}/{model}.parquet
                 {RESULTS}/config.yaml
                 resources/calibration/calibration.csv, if it is there
                 of studies of code:
                 {RESULTS}/curves/{study}/{curves,summaries,contrasts,fits}.parquet
                 {RESULTS}/{extractions,counts}/{study}/{model}.parquet
                 {RESULTS}/augmentations/{study}.parquet
                 {RESULTS}/paraphrases/{study}.parquet, if prompts are reworded
                 of studies of personas, besides what report_personas.smk makes:
                 {RESULTS}/personas/{study}.parquet
                 {RESULTS}/{features,programs}/{study}/{model}.parquet
                 {RESULTS}/wording/{study}/{style,entities,map}.parquet
OUTPUTS:         {RESULTS}/figures/{study}/{model}/{encoder}-{view}.{svg,png,pdf}
                 {RESULTS}/figures/{study}/{model}/{encoder}-cosine.{svg,png,pdf}
                 {RESULTS}/figures/{study}/{encoder}-{view}-signals.{svg,png,pdf}
                 {RESULTS}/figures/{study}/{encoder}-{level}-trend.{svg,png,pdf}
                 {RESULTS}/figures/{study}/{encoder}-text-marginal-trend.{svg,png,pdf}
                 {RESULTS}/figures/{study}/{encoder}-cosine.{svg,png,pdf}
                 {RESULTS}/figures/{study}/output_length.{svg,png,pdf}
                 {RESULTS}/figures/{study}/code-{figure}.{svg,png,pdf}
                 {RESULTS}/figures/{study}/{model}/code-{measure}-{heatmap}.{svg,png,pdf}
                 {RESULTS}/tables/*.csv (the tables of report.schemas and report.code.schemas)
                 {RESULTS}/report.html
                 (tests and views: report.level_tests)

Globals of the Snakefile: settings (config.Settings), HOME (the workflow's folder), RESULTS (the
results folder), ENVIRONMENT (the conda YAML of the environment).
"""

from llm_variability.braces import brace_paths
from llm_variability.report import VERSION as REPORT_VERSION
from llm_variability.report.code.names import CODE_PREFIX, list_code_figures, list_code_heatmaps
from llm_variability.report.code.schemas import CODE_SCHEMAS
from llm_variability.report.level_tests import (
    MARGINAL_ESTIMATES,
    MARGINAL_VIEWS,
    PUBLISHED_ESTIMATES,
    PUBLISHED_VIEWS,
    name_model_figures,
)
from llm_variability.report.page_files import digest_page_files
from llm_variability.stimuli.labels import read_label_stimuli

MEASUREMENTS = {
    "study": GROUP_STUDIES,
    "model": settings.models,
    "encoder": settings.encoders,
}
CALIBRATION = HOME / "resources/calibration/calibration.csv"

# Studies of several factors have figures of marginal contrasts as well; names have one factor, the
# group. Prompts are not rendered for it, since that takes seconds.
CROSSED = [
    name
    for name, study in settings.studies.items()
    if study.kind == "labels"
    and len(read_label_stimuli(find_resource(study.stimuli, HOME), study.formats).factors) > 1
]
UNCROSSED = [study for study in GROUP_STUDIES if study not in CROSSED]


HEATMAP = f"{RESULTS}/figures/{{study}}/{{model}}/{{encoder}}"
HEATMAPS = {
    view: report(
        f"{HEATMAP}-{view.key}.svg",
        caption="../report/heatmap.rst",
        category="Heatmaps",
        subcategory="{study}",
        labels={"model": "{model}", "encoder": "{encoder}", "test": view.label},
    )
    for view in PUBLISHED_VIEWS + MARGINAL_VIEWS
}


# One job draws all tests of a model and encoder, since starting one takes longer. It takes the
# study's adjusted p values only if the asterisks need them, or a new model would draw all anew.
rule heatmap:
    input:
        branch(
            settings.report.asterisks == "unadjusted",
            then=f"{RESULTS}/fits/{{study}}/{{model}}/{{encoder}}.parquet",
            otherwise=f"{RESULTS}/adjusted/{{study}}.parquet",
        ),
    output:
        **{view.key.replace("-", "_"): svg for view, svg in HEATMAPS.items()},
        others=[f"{HEATMAP}-{view.key}.{suffix}" for view in HEATMAPS for suffix in ("png", "pdf")],
    log:
        f"{RESULTS}/logs/report/heatmap/{{study}}/{{model}}/{{encoder}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/report/heatmap/{{study}}/{{model}}/{{encoder}}.tsv"
    wildcard_constraints:
        study=match_names(CROSSED),
    conda:
        ENVIRONMENT
    params:
        stem=subpath(output.cell, strip_suffix="-cell.svg"),
        stars=settings.report.asterisks,
        version=REPORT_VERSION,
    shell:
        "python -m llm_variability.report"
        " --log {log:q}"
        " heatmap"
        " --fits {input:q}"
        " --model {wildcards.model:q}"
        " --encoder {wildcards.encoder:q}"
        " --stars {params.stars:q}"
        " --stem {params.stem:q}"


use rule heatmap as heatmap_one_factor with:
    output:
        **{view.key.replace("-", "_"): HEATMAPS[view] for view in PUBLISHED_VIEWS},
        others=[
            f"{HEATMAP}-{view.key}.{suffix}"
            for view in PUBLISHED_VIEWS
            for suffix in ("png", "pdf")
        ],
    wildcard_constraints:
        study=match_names(UNCROSSED),


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


OF_MODELS = f"{RESULTS}/figures/{{study}}/{{encoder}}"
SIGNALS = {
    view: report(
        f"{OF_MODELS}-{view.key}-signals.svg",
        caption="../report/signals.rst",
        category="All models",
        subcategory="{study}",
        labels={"figure": "significant settings", "encoder": "{encoder}", "test": view.label},
    )
    for view in PUBLISHED_VIEWS + MARGINAL_VIEWS
}
TRENDS = {
    view: report(
        f"{OF_MODELS}-{view.level_key}-trend.svg",
        caption="../report/trend.rst",
        category="All models",
        subcategory="{study}",
        labels={"figure": "by temperature", "encoder": "{encoder}", "test": view.level_label},
    )
    for view in PUBLISHED_ESTIMATES + MARGINAL_ESTIMATES
}
MODELS_COSINE = report(
    f"{OF_MODELS}-cosine.svg",
    caption="../report/models_cosine.rst",
    category="All models",
    subcategory="{study}",
    labels={"figure": "mean cosine", "encoder": "{encoder}", "test": ""},
)

MODEL_FIGURES = {
    **{f"{view.key}-signals": svg for view, svg in SIGNALS.items()},
    **{f"{view.level_key}-trend": svg for view, svg in TRENDS.items()},
    "cosine": MODELS_COSINE,
}
EVERY_MODEL_FIGURE = name_model_figures(SIGNALS, TRENDS)
PUBLISHED_MODEL_FIGURES = name_model_figures(PUBLISHED_VIEWS, PUBLISHED_ESTIMATES)


# All models of a study and encoder are drawn by one job, since starting one takes longer.
rule model_figures:
    input:
        adjusted=f"{RESULTS}/adjusted/{{study}}.parquet",
        similarity=expand(
            f"{RESULTS}/similarity/{{{{study}}}}/{{model}}/{{{{encoder}}}}.parquet",
            model=settings.models,
        ),
    output:
        **{name: MODEL_FIGURES[kind] for name, kind in EVERY_MODEL_FIGURE.items()},
        others=[
            f"{OF_MODELS}-{kind}.{suffix}"
            for kind in EVERY_MODEL_FIGURE.values()
            for suffix in ("png", "pdf")
        ],
    log:
        f"{RESULTS}/logs/report/models/{{study}}/{{encoder}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/report/models/{{study}}/{{encoder}}.tsv"
    wildcard_constraints:
        study=match_names(CROSSED),
    conda:
        ENVIRONMENT
    params:
        stem=subpath(output.cosine, strip_suffix="-cosine.svg"),
        version=REPORT_VERSION,
    shell:
        "python -m llm_variability.report"
        " --log {log:q}"
        " models"
        " --adjusted {input.adjusted:q}"
        " --similarity {input.similarity:q}"
        " --stem {params.stem:q}"


use rule model_figures as model_figures_one_factor with:
    output:
        **{name: MODEL_FIGURES[kind] for name, kind in PUBLISHED_MODEL_FIGURES.items()},
        others=[
            f"{OF_MODELS}-{kind}.{suffix}"
            for kind in PUBLISHED_MODEL_FIGURES.values()
            for suffix in ("png", "pdf")
        ],
    wildcard_constraints:
        study=match_names(UNCROSSED),


rule output_length:
    input:
        expand(f"{RESULTS}/counts/{{{{study}}}}/{{model}}.parquet", model=settings.models),
    output:
        svg=report(
            f"{RESULTS}/figures/{{study}}/output_length.svg",
            caption="../report/output_length.rst",
            category="All models",
            subcategory="{study}",
            labels={"figure": "length of answers", "encoder": "", "test": ""},
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
        adjusted=expand(f"{RESULTS}/adjusted/{{study}}.parquet", study=GROUP_STUDIES),
        similarity=expand(
            f"{RESULTS}/similarity/{{study}}/{{model}}/{{encoder}}.parquet", **MEASUREMENTS
        ),
        counts=expand(
            f"{RESULTS}/counts/{{study}}/{{model}}.parquet",
            study=GROUP_STUDIES,
            model=settings.models,
        ),
        stimuli=expand(f"{RESULTS}/stimuli/{{study}}.parquet", study=GROUP_STUDIES),
        diversity=expand(
            [
                f"{RESULTS}/diversity/{{study}}/{{model}}/lexical/values.parquet",
                f"{RESULTS}/diversity/{{study}}/{{model}}/vendi/{{encoder}}/values.parquet",
            ],
            **MEASUREMENTS,
        ),
    output:
        fits=report(
            f"{RESULTS}/tables/fits.csv",
            caption="../report/fits.rst",
            category="Tables",
            labels={"table": "estimates"},
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
            caption="../report/signals_table.rst",
            category="Tables",
            labels={"table": "significant settings"},
        ),
        default_estimates=report(
            f"{RESULTS}/tables/default_estimates.csv",
            caption="../report/default_estimates.rst",
            category="Tables",
            labels={"table": "default setting"},
        ),
        sensitivity=report(
            f"{RESULTS}/tables/sensitivity.csv",
            caption="../report/sensitivity.rst",
            category="Tables",
            labels={"table": "sensitivity"},
        ),
        diversity_estimates=report(
            f"{RESULTS}/tables/diversity_estimates.csv",
            caption="../report/diversity_estimates.rst",
            category="Tables",
            labels={"table": "contrasts of diversity"},
        ),
        diversity=report(
            f"{RESULTS}/tables/diversity.csv",
            caption="../report/diversity.rst",
            category="Tables",
            labels={"table": "diversity by group"},
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
            labels={"table": "agreement of levels"},
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
        similarity=lambda wildcards, input: brace_paths(input.similarity),
        counts=lambda wildcards, input: brace_paths(input.counts),
        diversity=lambda wildcards, input: brace_paths(input.diversity),
        folder=subpath(output.fits, parent=True),
        version=REPORT_VERSION,
    shell:
        "python -m llm_variability.report"
        " --log {log:q}"
        " tables"
        " --adjusted {input.adjusted:q}"
        " --similarity {params.similarity}"
        " --counts {params.counts}"
        " --stimuli {input.stimuli:q}"
        " --diversity {params.diversity}"
        " --outdir {params.folder:q}"


CODE_FIGURE = f"{RESULTS}/figures/{{study}}/{CODE_PREFIX}"
CODE_MEASURES = [*settings.similarity.variants, *settings.encoders]
CODE_FIGURES, PARAPHRASED_FIGURES = (
    {
        each.ending: report(
            f"{CODE_FIGURE}{each.ending}.svg",
            caption=f"../report/{each.caption}.rst",
            category="Sensitivity of code",
            subcategory="{study}",
            labels={"figure": each.label, "measure": each.measure, "model": "all"},
        )
        for each in list_code_figures(CODE_MEASURES, paraphrased)
    }
    for paraphrased in (False, True)
)
# The ending of a heatmap's file, its model's folder before it.
CODE_HEATMAPS = {
    f"{model}/{CODE_PREFIX}{each.ending}": report(
        f"{RESULTS}/figures/{{study}}/{model}/{CODE_PREFIX}{each.ending}.svg",
        caption=f"../report/{each.caption}.rst",
        category="Sensitivity of code",
        subcategory="{study}",
        labels={"figure": each.label, "measure": each.measure, "model": model},
    )
    for model in settings.models
    for each in list_code_heatmaps(CODE_MEASURES)
}
# With one setting there is nothing to lay out over temperature and top-p.
GRIDDED = [study for study in CODE_STUDIES if len(settings.grid_of(study).cells()) > 1]


# All figures over all models of a study come of one job, since starting one takes longer.
rule code_figures:
    input:
        curves=f"{RESULTS}/curves/{{study}}/curves.parquet",
        paraphrases=[],
    output:
        first=next(iter(CODE_FIGURES.values())),
        svg=[*CODE_FIGURES.values()][1:],
        others=[
            f"{CODE_FIGURE}{ending}.{suffix}"
            for ending in CODE_FIGURES
            for suffix in ("png", "pdf")
        ],
    log:
        f"{RESULTS}/logs/report/code_figures/{{study}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/report/code_figures/{{study}}.tsv"
    wildcard_constraints:
        study=match_names(each for each in CODE_STUDIES if each not in PARAPHRASED),
    conda:
        ENVIRONMENT
    params:
        folder=subpath(output.first, parent=True),
        version=REPORT_VERSION,
    shell:
        "python -m llm_variability.report"
        " --log {log:q}"
        " code-figures"
        " --curves {input.curves:q}"
        " --paraphrases {input.paraphrases:q}"
        " --outdir {params.folder:q}"


use rule code_figures as code_figures_paraphrased with:
    input:
        curves=f"{RESULTS}/curves/{{study}}/curves.parquet",
        paraphrases=f"{RESULTS}/paraphrases/{{study}}.parquet",
    output:
        first=next(iter(PARAPHRASED_FIGURES.values())),
        svg=[*PARAPHRASED_FIGURES.values()][1:],
        others=[
            f"{CODE_FIGURE}{ending}.{suffix}"
            for ending in PARAPHRASED_FIGURES
            for suffix in ("png", "pdf")
        ],
    wildcard_constraints:
        study=match_names(PARAPHRASED),


rule code_heatmaps:
    input:
        curves=f"{RESULTS}/curves/{{study}}/curves.parquet",
        summaries=f"{RESULTS}/curves/{{study}}/summaries.parquet",
    output:
        first=next(iter(CODE_HEATMAPS.values())),
        svg=[*CODE_HEATMAPS.values()][1:],
        others=[
            f"{RESULTS}/figures/{{study}}/{ending}.{suffix}"
            for ending in CODE_HEATMAPS
            for suffix in ("png", "pdf")
        ],
    log:
        f"{RESULTS}/logs/report/code_heatmaps/{{study}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/report/code_heatmaps/{{study}}.tsv"
    wildcard_constraints:
        study=match_names(GRIDDED),
    conda:
        ENVIRONMENT
    params:
        folder=subpath(output.first, ancestor=2),
        version=REPORT_VERSION,
    shell:
        "python -m llm_variability.report"
        " --log {log:q}"
        " code-heatmaps"
        " --curves {input.curves:q}"
        " --summaries {input.summaries:q}"
        " --outdir {params.folder:q}"


rule code_tables:
    input:
        **{
            name: expand(f"{RESULTS}/curves/{{study}}/{name}.parquet", study=CODE_STUDIES)
            for name in ("curves", "summaries", "contrasts", "fits")
        },
        **{
            name: expand(
                f"{RESULTS}/{name}/{{study}}/{{model}}.parquet",
                study=CODE_STUDIES,
                model=settings.models,
            )
            for name in ("extractions", "counts")
        },
        augmentations=expand(f"{RESULTS}/augmentations/{{study}}.parquet", study=CODE_STUDIES),
        paraphrases=expand(f"{RESULTS}/paraphrases/{{study}}.parquet", study=PARAPHRASED),
    output:
        **{
            name: report(
                f"{RESULTS}/tables/{name}.csv",
                caption=f"../report/{name}_table.rst",
                category="Tables",
                labels={"table": name.replace("_", ", ")},
            )
            for name in CODE_SCHEMAS
        },
    log:
        f"{RESULTS}/logs/report/code_tables.log",
    benchmark:
        f"{RESULTS}/benchmarks/report/code_tables.tsv"
    conda:
        ENVIRONMENT
    params:
        folder=subpath(output.code_curves, parent=True),
        version=REPORT_VERSION,
    shell:
        "python -m llm_variability.report"
        " --log {log:q}"
        " code-tables"
        " --curves {input.curves:q}"
        " --summaries {input.summaries:q}"
        " --contrasts {input.contrasts:q}"
        " --fits {input.fits:q}"
        " --extractions {input.extractions:q}"
        " --counts {input.counts:q}"
        " --augmentations {input.augmentations:q}"
        " --paraphrases {input.paraphrases:q}"
        " --outdir {params.folder:q}"


rule report:
    input:
        **{
            name: expand(f"{RESULTS}/wording/{{study}}/{file}.parquet", study=PERSONA_STUDIES)
            for name, file in (("style", "style"), ("entities", "entities"), ("maps", "map"))
        },
        tables=rules.tables.output,
        heatmaps=[
            *expand(
                f"{RESULTS}/figures/{{study}}/{{model}}/{{encoder}}-{{view}}.svg",
                **MEASUREMENTS,
                view=[view.key for view in PUBLISHED_VIEWS],
            ),
            *expand(
                f"{RESULTS}/figures/{{study}}/{{model}}/{{encoder}}-{{view}}.svg",
                **{**MEASUREMENTS, "study": CROSSED},
                view=[view.key for view in MARGINAL_VIEWS],
            ),
        ],
        cosines=expand(rules.mean_cosine.output.svg, **MEASUREMENTS),
        of_models=[
            f"{RESULTS}/figures/{study}/{encoder}-{kind}.svg"
            for studies, kinds in (
                (CROSSED, EVERY_MODEL_FIGURE),
                (UNCROSSED, PUBLISHED_MODEL_FIGURES),
            )
            for study in studies
            for encoder in settings.encoders
            for kind in kinds.values()
        ],
        lengths=expand(rules.output_length.output.svg, study=GROUP_STUDIES),
        code_tables=rules.code_tables.output if CODE_STUDIES else [],
        code_figures=[
            f"{RESULTS}/figures/{study}/{ending}.svg"
            for study in CODE_STUDIES
            for ending in (
                *(
                    f"{CODE_PREFIX}{each}"
                    for each in (PARAPHRASED_FIGURES if study in PARAPHRASED else CODE_FIGURES)
                ),
                *(CODE_HEATMAPS if study in GRIDDED else ()),
            )
        ],
        programs=expand(
            f"{RESULTS}/programs/{{study}}/{{model}}.parquet",
            study=PERSONA_STUDIES,
            model=settings.models,
        ),
        persona_tables=rules.persona_tables.output if PERSONA_STUDIES else [],
        persona_figures=[
            f"{RESULTS}/figures/{study}/{PERSONA_PREFIX}{ending}.svg"
            for study in PERSONA_STUDIES
            for ending in (DIALOGUE_FIGURES if study in DIALOGUE_STUDIES else PERSONA_FIGURES)
        ],
        rewritings=expand(f"{RESULTS}/personas/{{study}}.parquet", study=PERSONA_STUDIES),
        features=expand(
            f"{RESULTS}/features/{{study}}/{{model}}.parquet",
            study=PERSONA_STUDIES,
            model=settings.models,
        ),
        models=expand(f"{RESULTS}/models/{{model}}.json", model=settings.models),
        encoders=expand(f"{RESULTS}/encoders/{{encoder}}.json", encoder=settings.encoders),
        draws=expand(
            f"{RESULTS}/draws/{{study}}/{{model}}/{{cell}}.parquet",
            study=GROUP_STUDIES,
            model=settings.models,
            cell=CELLS[-1],
        ),
        code_draws=[
            f"{RESULTS}/draws/{study}/{model}/{settings.cells(study)[0]}.parquet"
            for study in CODE_STUDIES + PERSONA_STUDIES
            for model in settings.models
        ],
        stimuli=expand(f"{RESULTS}/stimuli/{{study}}.parquet", study=settings.studies),
        throughput=expand(f"{RESULTS}/throughput/{{model}}.parquet", model=settings.models),
        examples=expand(
            f"{RESULTS}/examples/{{study}}/{{model}}.parquet",
            study=settings.studies,
            model=settings.models,
        ),
        # What else says which packages made the numbers.
        stages=[
            *expand(f"{RESULTS}/fits/{{study}}/{{model}}/{{encoder}}.parquet", **MEASUREMENTS),
            *expand(
                f"{RESULTS}/embeddings/{{study}}/{{model}}/{{encoder}}.parquet",
                **{**MEASUREMENTS, "study": settings.studies},
            ),
            *expand(f"{RESULTS}/curves/{{study}}/curves.parquet", study=CODE_STUDIES),
            *expand(f"{RESULTS}/separation/{{study}}/leakage.parquet", study=PERSONA_STUDIES),
        ],
        config=f"{RESULTS}/config.yaml",
        calibration=[CALIBRATION] if CALIBRATION.is_file() else [],
    output:
        page=report(
            f"{RESULTS}/report.html",
            caption="../report/page.rst",
            category="Report",
            labels={"page": "whole report"},
        ),
        diagnostics=report(
            f"{RESULTS}/tables/diagnostics.csv",
            caption="../report/diagnostics.rst",
            category="Tables",
            labels={"table": "diagnostics"},
        ),
    log:
        f"{RESULTS}/logs/report/page.log",
    benchmark:
        f"{RESULTS}/benchmarks/report/page.tsv"
    conda:
        ENVIRONMENT
    params:
        figures=lambda wildcards, input: brace_paths([*input.heatmaps, *input.cosines]),
        study_figures=lambda wildcards, input: brace_paths([*input.of_models, *input.lengths]),
        code_figures=lambda wildcards, input: brace_paths(input.code_figures),
        programs=lambda wildcards, input: brace_paths(input.programs),
        features=lambda wildcards, input: brace_paths(input.features),
        draws=lambda wildcards, input: brace_paths([*input.draws, *input.code_draws]),
        examples=lambda wildcards, input: brace_paths(input.examples),
        stages=lambda wildcards, input: brace_paths(input.stages),
        calibration="--calibration" if CALIBRATION.is_file() else "",
        page_files=lambda wildcards: digest_page_files(),
    shell:
        "python -m llm_variability.report"
        " --log {log:q}"
        " page"
        " --tables {input.tables:q}"
        " --figures {params.figures}"
        " --study-figures {params.study_figures}"
        " --manifests {input.models:q} {input.encoders:q}"
        " --code-tables {input.code_tables:q}"
        " --code-figures {params.code_figures}"
        " --programs {params.programs}"
        " --persona-tables {input.persona_tables:q}"
        " --persona-figures {input.persona_figures:q}"
        " --rewritings {input.rewritings:q}"
        " --features {params.features}"
        " --style {input.style:q}"
        " --entities {input.entities:q}"
        " --entity-maps {input.maps:q}"
        " --draws {params.draws}"
        " --stimuli {input.stimuli:q}"
        " --throughput {input.throughput:q}"
        " --examples {params.examples}"
        " --stages {params.stages}"
        " --config {input.config:q}"
        " {params.calibration} {input.calibration:q}"
        " --diagnostics {output.diagnostics:q}"
        " --output {output.page:q}"
