"""Report on studies of personas: figures and CSV tables. The page is made in report.smk.

REQUIRED INPUTS: {RESULTS}/separation/{study}/{similarity,means,leakage,confusions}.parquet
                 {RESULTS}/wording/{study}/{entities,map,shared,topics,topic_weights}.parquet
                 {RESULTS}/personas/{study}.parquet
                 {RESULTS}/{features,extractions,counts}/{study}/{model}.parquet
                 {RESULTS}/dialogues/{study}/changes.parquet, if models could ask back
OUTPUTS:         {RESULTS}/figures/{study}/persona-{figure}.{svg,png,pdf}
                 {RESULTS}/tables/persona_*.csv (the tables of report.personas.schemas)

Studies are those of kind personas (PERSONA_STUDIES).
"""

from llm_variability.report import VERSION as REPORT_VERSION
from llm_variability.report.personas.names import PERSONA_PREFIX, list_persona_figures
from llm_variability.report.personas.schemas import PERSONA_SCHEMAS

PERSONA_MEASURES = [*settings.similarity.variants, *settings.encoders]
PERSONA_FIGURE = f"{RESULTS}/figures/{{study}}/{PERSONA_PREFIX}"
DIALOGUE_FIGURES = {
    each.ending: report(
        f"{PERSONA_FIGURE}{each.ending}.svg",
        caption=f"../report/{each.caption}.rst",
        category="Personas",
        subcategory="{study}",
        labels={"figure": each.label, "measure": each.measure},
    )
    for each in list_persona_figures(PERSONA_MEASURES, dialogue=True)
}
PERSONA_FIGURES = {
    each.ending: DIALOGUE_FIGURES[each.ending]
    for each in list_persona_figures(PERSONA_MEASURES, dialogue=False)
}


# All figures over all models of a study come of one job, since starting one takes longer.
rule persona_figures:
    input:
        separation=f"{SEPARATED}/similarity.parquet",
        means=f"{SEPARATED}/means.parquet",
        leakage=f"{SEPARATED}/leakage.parquet",
        confusions=f"{SEPARATED}/confusions.parquet",
        features=expand(
            f"{RESULTS}/features/{{{{study}}}}/{{model}}.parquet", model=settings.models
        ),
        shared=f"{WORDING}/shared.parquet",
        map=f"{WORDING}/map.parquet",
        entities=f"{WORDING}/entities.parquet",
        topics=f"{WORDING}/topics.parquet",
        topic_weights=f"{WORDING}/topic_weights.parquet",
        rewritings=f"{RESULTS}/personas/{{study}}.parquet",
        changes=lambda wildcards: (
            [f"{RESULTS}/dialogues/{wildcards.study}/changes.parquet"]
            if wildcards.study in DIALOGUE_STUDIES
            else []
        ),
    output:
        first=next(iter(PERSONA_FIGURES.values())),
        svg=[*PERSONA_FIGURES.values()][1:],
        others=[
            f"{PERSONA_FIGURE}{ending}.{suffix}"
            for ending in PERSONA_FIGURES
            for suffix in ("png", "pdf")
        ],
    log:
        f"{RESULTS}/logs/report/persona_figures/{{study}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/report/persona_figures/{{study}}.tsv"
    wildcard_constraints:
        study=match_names(each for each in PERSONA_STUDIES if each not in DIALOGUE_STUDIES),
    conda:
        ENVIRONMENT
    params:
        changes=lambda wildcards, input: "--dialogue-changes" if input.changes else "",
        measures=PERSONA_MEASURES,
        stars=settings.report.asterisks,
        folder=subpath(output.first, parent=True),
        version=REPORT_VERSION,
    shell:
        "python -m llm_variability.report"
        " --log {log:q}"
        " persona-figures"
        " --separation {input.separation:q}"
        " --means {input.means:q}"
        " --leakage {input.leakage:q}"
        " --confusions {input.confusions:q}"
        " --features {input.features:q}"
        " --shared {input.shared:q}"
        " --map {input.map:q}"
        " --entities {input.entities:q}"
        " --topics {input.topics:q}"
        " --topic-weights {input.topic_weights:q}"
        " --rewritings {input.rewritings:q}"
        " {params.changes} {input.changes:q}"
        " --measures {params.measures:q}"
        " --stars {params.stars:q}"
        " --outdir {params.folder:q}"


use rule persona_figures as persona_figures_of_dialogues with:
    output:
        first=next(iter(DIALOGUE_FIGURES.values())),
        svg=[*DIALOGUE_FIGURES.values()][1:],
        others=[
            f"{PERSONA_FIGURE}{ending}.{suffix}"
            for ending in DIALOGUE_FIGURES
            for suffix in ("png", "pdf")
        ],
    wildcard_constraints:
        study=match_names(DIALOGUE_STUDIES),


rule persona_tables:
    input:
        **{
            name: expand(f"{RESULTS}/separation/{{study}}/{file}.parquet", study=PERSONA_STUDIES)
            for name, file in (
                ("separation", "similarity"),
                ("means", "means"),
                ("leakage", "leakage"),
                ("confusions", "confusions"),
            )
        },
        **{
            name: expand(f"{RESULTS}/wording/{{study}}/{name}.parquet", study=PERSONA_STUDIES)
            for name in ("shared", "topics")
        },
        **{
            name: expand(
                f"{RESULTS}/{name}/{{study}}/{{model}}.parquet",
                study=PERSONA_STUDIES,
                model=settings.models,
            )
            for name in ("features", "extractions", "counts")
        },
        rewritings=expand(f"{RESULTS}/personas/{{study}}.parquet", study=PERSONA_STUDIES),
        changes=expand(f"{RESULTS}/dialogues/{{study}}/changes.parquet", study=DIALOGUE_STUDIES),
    output:
        **{
            name: report(
                f"{RESULTS}/tables/{name}.csv",
                caption=f"../report/{name}_table.rst",
                category="Tables",
                labels={"table": name.replace("_", ", ")},
            )
            for name in PERSONA_SCHEMAS
        },
    log:
        f"{RESULTS}/logs/report/persona_tables.log",
    benchmark:
        f"{RESULTS}/benchmarks/report/persona_tables.tsv"
    conda:
        ENVIRONMENT
    params:
        changes=lambda wildcards, input: "--dialogue-changes" if input.changes else "",
        folder=subpath(output.persona_prompts, parent=True),
        version=REPORT_VERSION,
    shell:
        "python -m llm_variability.report"
        " --log {log:q}"
        " persona-tables"
        " --rewritings {input.rewritings:q}"
        " --separation {input.separation:q}"
        " --means {input.means:q}"
        " --leakage {input.leakage:q}"
        " --confusions {input.confusions:q}"
        " --features {input.features:q}"
        " --shared {input.shared:q}"
        " --topics {input.topics:q}"
        " --counts {input.counts:q}"
        " --extractions {input.extractions:q}"
        " {params.changes} {input.changes:q}"
        " --outdir {params.folder:q}"
