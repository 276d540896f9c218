"""llm-variability: how much the outputs of language models vary.

fetch -> stimuli -> draws -> similarity -> fits -> report, a .smk file and a subpackage each.
"""

import sys
from pathlib import Path

from snakemake.utils import min_version

min_version("9.27")

HOME = Path(workflow.basedir)
sys.path.insert(0, str(HOME / "workflow"))

from llm_variability.config import CELL_PATTERN, ConfigError, load_settings
from llm_variability.preflight import RunLock, check_settings, find_resource, share_package

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
# Each model is loaded once: all that draws need comes first, alone by taking every slot `engine`,
# then each model's cells before the next one's, then whatever else may want the device.
BEFORE_DRAWS, DRAWS_FIRST, ALL_ENGINES = 2000, 1000, 1000
ENVIRONMENT = str(HOME / f"envs/{settings.environment}.yaml")


wildcard_constraints:
    study="[^/]+",
    model="[^/]+",
    encoder="[^/]+",
    cell=CELL_PATTERN,


rule all:
    input:
        f"{RESULTS}/report.html",


include: "workflow/rules/config.smk"
include: "workflow/rules/fetch.smk"
include: "workflow/rules/stimuli.smk"
include: "workflow/rules/draws.smk"
include: "workflow/rules/similarity.smk"
include: "workflow/rules/fits.smk"
include: "workflow/rules/report.smk"


onstart:
    RunLock(RESULTS).take()
