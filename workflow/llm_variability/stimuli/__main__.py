"""python -m llm_variability.stimuli --study NAME --settings JSON --stimuli FILE --output FILE"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from llm_variability.config import Study
from llm_variability.logs import stage_log, stage_parser
from llm_variability.stimuli.code import Sources
from llm_variability.stimuli.registry import list_named_files, render_prompts
from llm_variability.tables import STIMULI, read_table, write_table
from llm_variability.tables_code import AUGMENTATIONS, PARAPHRASES
from llm_variability.tables_personas import REWRITINGS


def checksum_files(paths: Iterable[Path]) -> dict[str, str]:
    """Give the SHA-256 of each file, in hexadecimal, by its name."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def read_manifest(path: Path | None) -> dict[str, Any] | None:
    """Read what describes WordNet, if there is one."""
    return None if path is None else dict(json.loads(path.read_text(encoding="utf-8")))


def main() -> None:
    parser = stage_parser("Render the prompts of a study.")
    parser.add_argument("--study", required=True, help="name of the study")
    parser.add_argument("--settings", required=True, help="its part of the configuration, JSON")
    parser.add_argument("--stimuli", required=True, type=Path, help="stimuli file")
    parser.add_argument("--seed", type=int, default=0, help="of the random streams, kind code")
    parser.add_argument("--wordnet", type=Path, help="manifest of WordNet, kind code")
    parser.add_argument("--paraphrases", type=Path, help="table of paraphrases, kind code")
    parser.add_argument("--rewritings", type=Path, help="table of rewritings, kind personas")
    parser.add_argument("--augmentations", type=Path, help="account to write, kind code")
    parser.add_argument("--output", required=True, type=Path)
    arguments = parser.parse_args()
    with stage_log(arguments.log):
        study = Study.model_validate(json.loads(arguments.settings))
        wordnet = read_manifest(arguments.wordnet)
        sources = Sources(
            arguments.seed,
            None if wordnet is None else Path(wordnet["path"]),
            arguments.paraphrases and read_table(arguments.paraphrases, PARAPHRASES),
            arguments.rewritings and read_table(arguments.rewritings, REWRITINGS),
        )
        stimuli = render_prompts(arguments.stimuli, study, sources)
        metadata = {
            "study": arguments.study,
            "kind": study.kind,
            "design": stimuli.design.to_json(),
            "files": checksum_files(
                [
                    *([arguments.stimuli] if arguments.stimuli.is_file() else []),
                    *list_named_files(arguments.stimuli, study),
                ]
            ),
            **({} if wordnet is None else {"wordnet": wordnet}),
            **stimuli.facts,
        }
        if stimuli.accounts is not None:
            write_table(stimuli.accounts, arguments.augmentations, AUGMENTATIONS, metadata)
        write_table(stimuli.prompts, arguments.output, STIMULI, metadata)


if __name__ == "__main__":
    main()
