"""Dialogues: the model may ask back before it writes code, and the persona answers.

REQUIRED INPUTS: {RESULTS}/stimuli/{study}.parquet
                 {RESULTS}/personas/{study}.parquet
                 {RESULTS}/programs/{study}/{model}.parquet
                 {RESULTS}/models/{model}.json
OUTPUTS:         {RESULTS}/dialogues/{study}/turn-0.parquet
                 {RESULTS}/dialogues/{study}/{asker}/turn-{turn}/{cell}.parquet
                 {RESULTS}/dialogues/{study}/{asker}/question-{turn}/{cell}.parquet
                 {RESULTS}/dialogues/{study}/{asker}/answer-{turn}/{model}/{cell}.parquet
                 {RESULTS}/dialogues/{study}/{asker}/prompt-{turn}/{cell}.parquet
                 {RESULTS}/dialogues/{study}/{asker}/{dialogues,programs}.parquet
                 {RESULTS}/dialogues/{study}/changes.parquet

Studies are those with a dialogue (DIALOGUE_STUDIES); in others nothing of this is made. The asker
writes the code and asks; the model that takes the personas answers (`personas.model`). Turn 0 comes
before any question, turn N after the answer to question N; where nobody asks, the tables from there
on have no row and start no engine.
"""

from llm_variability.braces import brace_paths
from llm_variability.config_code import Extraction
from llm_variability.devices import BEFORE_DRAWS
from llm_variability.dialogues import (
    ASK_VERSION,
    COMPARE_VERSION,
    CONTINUE_VERSION,
    INVITE_VERSION,
    TABULATE_VERSION,
)
from llm_variability.dialogues.phases import rank_draws

DIALOGUE_STUDIES = [study for study in PERSONA_STUDIES if settings.studies[study].dialogue]
DIALOGUES = {study: settings.studies[study].dialogue for study in DIALOGUE_STUDIES}
DIALOGUE = f"{RESULTS}/dialogues/{{study}}"
ASKER = f"{DIALOGUE}/{{asker}}"
DIALOGUE_LOG = f"{RESULTS}/logs/dialogues/{{study}}"
DIALOGUE_BENCHMARK = f"{RESULTS}/benchmarks/dialogues/{{study}}"

# The prompts of a turn and the draws of them, by the number of the turn that follows it.
MOST_TURNS = max([how.exchanges for how in DIALOGUES.values()], default=0) + 1
PROMPTS_BEFORE = {1: f"{DIALOGUE}/turn-0.parquet"} | {
    turn + 1: f"{ASKER}/prompt-{turn}/{{cell}}.parquet" for turn in range(1, MOST_TURNS)
}
DRAWS_BEFORE = {turn + 1: f"{ASKER}/turn-{turn}/{{cell}}.parquet" for turn in range(MOST_TURNS)}
PHASE_RANK = {
    (study, phase, model): rank_draws(phase, model, list(settings.models), PERSONAS[study].model)
    for study in DIALOGUE_STUDIES
    for phase in range(2 * MOST_TURNS)
    for model in settings.models
}


rule dialogue_invitations:
    input:
        f"{RESULTS}/stimuli/{{study}}.parquet",
    output:
        f"{DIALOGUE}/turn-0.parquet",
    log:
        f"{DIALOGUE_LOG}/turn-0.log",
    benchmark:
        f"{DIALOGUE_BENCHMARK}/turn-0.tsv"
    wildcard_constraints:
        study=match_names(DIALOGUE_STUDIES),
    priority: BEFORE_DRAWS
    localrule: True
    conda:
        ENVIRONMENT
    params:
        version=INVITE_VERSION,
    shell:
        """
        python -m llm_variability.dialogues \
            --log {log:q} \
            invite \
            --stimuli {input:q} \
            --output {output:q}
        """


use rule generate as generate_turns with:
    input:
        stimuli=lambda wildcards: expand(
            PROMPTS_BEFORE[int(wildcards.turn) + 1],
            study=wildcards.study,
            asker=wildcards.model,
            cell=wildcards.setting,
        ),
        manifest=f"{RESULTS}/models/{{model}}.json",
    output:
        f"{DIALOGUE}/{{model}}/turn-{{turn}}/{{setting}}.parquet",
    log:
        f"{DIALOGUE_LOG}/{{model}}/turn-{{turn}}/{{setting}}.log",
    benchmark:
        f"{DIALOGUE_BENCHMARK}/{{model}}/turn-{{turn}}/{{setting}}.tsv"
    wildcard_constraints:
        study=match_names(DIALOGUE_STUDIES),
        turn="[0-9]+",
    priority: lambda w: PHASE_RANK[w.study, 2 * int(w.turn), w.model] - SETTING_RANK[w.setting]


rule dialogue_questions:
    input:
        stimuli=f"{RESULTS}/stimuli/{{study}}.parquet",
        rewritings=f"{RESULTS}/personas/{{study}}.parquet",
        prompts=lambda wildcards: expand(PROMPTS_BEFORE[int(wildcards.turn)], **wildcards),
        draws=lambda wildcards: expand(DRAWS_BEFORE[int(wildcards.turn)], **wildcards),
    output:
        f"{ASKER}/question-{{turn}}/{{cell}}.parquet",
    log:
        f"{DIALOGUE_LOG}/{{asker}}/question-{{turn}}/{{cell}}.log",
    benchmark:
        f"{DIALOGUE_BENCHMARK}/{{asker}}/question-{{turn}}/{{cell}}.tsv"
    wildcard_constraints:
        study=match_names(DIALOGUE_STUDIES),
        asker="[^/]+",
        turn="[1-9][0-9]*",
    priority: BEFORE_DRAWS
    conda:
        ENVIRONMENT
    params:
        version=ASK_VERSION,
    shell:
        """
        python -m llm_variability.dialogues \
            --log {log:q} \
            ask \
            --exchange {wildcards.turn:q} \
            --stimuli {input.stimuli:q} \
            --rewritings {input.rewritings:q} \
            --prompts {input.prompts:q} \
            --draws {input.draws:q} \
            --output {output:q}
        """


use rule generate as generate_answers with:
    input:
        stimuli=f"{ASKER}/question-{{turn}}/{{setting}}.parquet",
        manifest=f"{RESULTS}/models/{{model}}.json",
    output:
        f"{ASKER}/answer-{{turn}}/{{model}}/{{setting}}.parquet",
    log:
        f"{DIALOGUE_LOG}/{{asker}}/answer-{{turn}}/{{model}}/{{setting}}.log",
    benchmark:
        f"{DIALOGUE_BENCHMARK}/{{asker}}/answer-{{turn}}/{{model}}/{{setting}}.tsv"
    wildcard_constraints:
        study=match_names(DIALOGUE_STUDIES),
        asker="[^/]+",
        turn="[1-9][0-9]*",
    priority: lambda w: PHASE_RANK[w.study, 2 * int(w.turn) - 1, w.model] - SETTING_RANK[w.setting]
    params:
        max_new_tokens=lambda wildcards: DIALOGUES[wildcards.study].max_new_tokens,


rule dialogue_prompts:
    input:
        stimuli=f"{RESULTS}/stimuli/{{study}}.parquet",
        prompts=lambda wildcards: expand(PROMPTS_BEFORE[int(wildcards.turn)], **wildcards),
        draws=lambda wildcards: expand(DRAWS_BEFORE[int(wildcards.turn)], **wildcards),
        answers=lambda wildcards: expand(
            f"{ASKER}/answer-{{turn}}/{{model}}/{{cell}}.parquet",
            model=PERSONAS[wildcards.study].model,
            **wildcards,
        ),
    output:
        f"{ASKER}/prompt-{{turn}}/{{cell}}.parquet",
    log:
        f"{DIALOGUE_LOG}/{{asker}}/prompt-{{turn}}/{{cell}}.log",
    benchmark:
        f"{DIALOGUE_BENCHMARK}/{{asker}}/prompt-{{turn}}/{{cell}}.tsv"
    wildcard_constraints:
        study=match_names(DIALOGUE_STUDIES),
        asker="[^/]+",
        turn="[1-9][0-9]*",
    priority: BEFORE_DRAWS
    conda:
        ENVIRONMENT
    params:
        exchanges=lambda wildcards: DIALOGUES[wildcards.study].exchanges,
        version=CONTINUE_VERSION,
    shell:
        """
        python -m llm_variability.dialogues \
            --log {log:q} \
            continue \
            --exchange {wildcards.turn:q} \
            --exchanges {params.exchanges:q} \
            --stimuli {input.stimuli:q} \
            --prompts {input.prompts:q} \
            --draws {input.draws:q} \
            --answers {input.answers:q} \
            --output {output:q}
        """


rule dialogues:
    input:
        stimuli=f"{RESULTS}/stimuli/{{study}}.parquet",
        draws=lambda wildcards: expand(
            f"{ASKER}/turn-{{turn}}/{{cell}}.parquet",
            study=wildcards.study,
            asker=wildcards.asker,
            turn=range(DIALOGUES[wildcards.study].exchanges + 1),
            cell=settings.cells(wildcards.study),
        ),
        continued=lambda wildcards: expand(
            f"{ASKER}/prompt-{{turn}}/{{cell}}.parquet",
            study=wildcards.study,
            asker=wildcards.asker,
            turn=range(1, DIALOGUES[wildcards.study].exchanges + 1),
            cell=settings.cells(wildcards.study),
        ),
    output:
        dialogues=f"{ASKER}/dialogues.parquet",
        programs=f"{ASKER}/programs.parquet",
    log:
        f"{DIALOGUE_LOG}/{{asker}}/dialogues.log",
    benchmark:
        f"{DIALOGUE_BENCHMARK}/{{asker}}/dialogues.tsv"
    wildcard_constraints:
        study=match_names(DIALOGUE_STUDIES),
        asker="[^/]+",
    conda:
        ENVIRONMENT
    params:
        draws=lambda wildcards, input: brace_paths(input.draws),
        continued=lambda wildcards, input: brace_paths(input.continued),
        exchanges=lambda wildcards: DIALOGUES[wildcards.study].exchanges,
        extraction=lambda wildcards: (
            settings.studies[wildcards.study].extraction or Extraction()
        ).to_json(),
        version=TABULATE_VERSION,
    shell:
        """
        python -m llm_variability.dialogues \
            --log {log:q} \
            tabulate \
            --stimuli {input.stimuli:q} \
            --draws {params.draws} \
            --continued {params.continued} \
            --exchanges {params.exchanges:q} \
            --extraction {params.extraction:q} \
            --output {output.dialogues:q} \
            --programs {output.programs:q}
        """


rule dialogue_changes:
    input:
        dialogues=expand(f"{ASKER}/dialogues.parquet", asker=settings.models, allow_missing=True),
        after=expand(f"{ASKER}/programs.parquet", asker=settings.models, allow_missing=True),
        programs=expand(
            f"{RESULTS}/programs/{{study}}/{{model}}.parquet",
            model=settings.models,
            allow_missing=True,
        ),
    output:
        f"{DIALOGUE}/changes.parquet",
    log:
        f"{DIALOGUE_LOG}/changes.log",
    benchmark:
        f"{DIALOGUE_BENCHMARK}/changes.tsv"
    wildcard_constraints:
        study=match_names(DIALOGUE_STUDIES),
    conda:
        ENVIRONMENT
    threads: TREE_THREADS
    params:
        variants=settings.similarity.variants,
        costs=("null" if settings.similarity.costs is None else settings.similarity.costs.to_json()),
        max_nodes=settings.similarity.max_nodes,
        compiled=f"{RESULTS}/compiled",
        version=COMPARE_VERSION,
    shell:
        """
        python -m llm_variability.dialogues \
            --log {log:q} \
            compare \
            --dialogues {input.dialogues:q} \
            --after {input.after:q} \
            --programs {input.programs:q} \
            --variants {params.variants:q} \
            --costs {params.costs:q} \
            --max-nodes {params.max_nodes:q} \
            --threads {threads} \
            --compiled {params.compiled:q} \
            --output {output:q}
        """
