"""python -m llm_variability.stimuli --study NAME --settings JSON --stimuli FILE --output FILE"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from llm_variability.config import Study
from llm_variability.logs import stage_log, stage_parser
from llm_variability.stimuli.registry import list_named_files, render_prompts
from llm_variability.tables import STIMULI, write_table


def checksum_files(paths: Iterable[Path]) -> dict[str, str]:
    """Give the SHA-256 of each file, in hexadecimal, by its name."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def main() -> None:
    parser = stage_parser("Render the prompts of a study.")
    parser.add_argument("--study", required=True, help="name of the study")
    parser.add_argument("--settings", required=True, help="its part of the configuration, JSON")
    parser.add_argument("--stimuli", required=True, type=Path, help="stimuli file")
    parser.add_argument("--output", required=True, type=Path)
    arguments = parser.parse_args()
    with stage_log(arguments.log):
        study = Study.model_validate(json.loads(arguments.settings))
        stimuli = render_prompts(arguments.stimuli, study)
        metadata = {
            "study": arguments.study,
            "kind": study.kind,
            "design": stimuli.design.to_json(),
            "files": checksum_files(
                [arguments.stimuli, *list_named_files(arguments.stimuli, study)]
            ),
            **stimuli.facts,
        }
        write_table(stimuli.prompts, arguments.output, STIMULI, metadata)


if __name__ == "__main__":
    main()
