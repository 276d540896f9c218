"""llm-variability: how much the outputs of language models vary.

fetch -> stimuli -> draws -> similarity -> fits, sensitivity, diversity, examples -> report ->
record: a .smk file and a subpackage each. Of studies of code: augmentation, code, curves; of
personas: personas, dialogues, linguistics, separation. Only when asked for: validation, calibration.
"""

import sys
from pathlib import Path

from snakemake.utils import min_version

min_version("9.27")

HOME = Path(workflow.basedir)
sys.path.insert(0, str(HOME / "workflow"))

from llm_variability.config import ConfigError, find_resource, load_settings
from llm_variability.preflight import check_settings, hold_results, share_package

# A configuration file is complete in itself, so the default is not merged under another one.
CONFIG_FILES = [Path(file) for file in workflow.configfiles] or [HOME / "config/config.yaml"]
try:
    settings = load_settings(CONFIG_FILES, workflow.config_settings.config)
    if workflow.is_main_process:
        check_settings(settings, CONFIG_FILES[-1], HOME)
except ConfigError as error:
    sys.exit(str(error))

share_package(HOME / "workflow")
config = settings.model_dump()
RESULTS = settings.results.rstrip("/")
ENVIRONMENT = str(HOME / f"envs/{settings.environment}.yaml")


include: "workflow/rules/config.smk"
include: "workflow/rules/fetch.smk"
include: "workflow/rules/stimuli.smk"
include: "workflow/rules/draws.smk"
include: "workflow/rules/similarity.smk"
include: "workflow/rules/augmentation.smk"
include: "workflow/rules/personas.smk"
include: "workflow/rules/code.smk"
include: "workflow/rules/curves.smk"
include: "workflow/rules/dialogues.smk"
include: "workflow/rules/linguistics.smk"
include: "workflow/rules/separation.smk"
include: "workflow/rules/sensitivity.smk"
include: "workflow/rules/diversity.smk"
include: "workflow/rules/fits.smk"
include: "workflow/rules/examples.smk"
include: "workflow/rules/report_personas.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/record.smk"
include: "workflow/rules/validation.smk"
include: "workflow/rules/calibration.smk"


# Every stage's files are targets, or one that a failed job took away would not be missed.
rule all:
    default_target: True
    input:
        rules.record.output,
        rules.report.output,
        rules.report.input,
        rules.tables.input,
        expand(rules.adjust.input, study=GROUP_STUDIES),
        expand(rules.embed.output, **MEASUREMENTS),
        expand(
            [
                *rules.extract_programs.output,
                *rules.tsed.output,
                *rules.code_cosine.output,
                *rules.embed_programs.output,
            ],
            **{**MEASUREMENTS, "study": CODE_STUDIES},
        ),
        expand(
            [*rules.prompt_tsed.output, *rules.prompt_cosine.output, *rules.embed_programs.output],
            **{**MEASUREMENTS, "study": PERSONA_STUDIES},
        ),
        expand(rules.linguistics.output, study=PERSONA_STUDIES),
        rules.code_tables.input if CODE_STUDIES else [],
        rules.persona_tables.input if PERSONA_STUDIES else [],
        EVERY_DRAWS,


onstart:
    hold_results(RESULTS)
