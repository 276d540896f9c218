"""python -m llm_variability.fetch model|encoder --name N --settings JSON --output FILE"""

from __future__ import annotations

import json
from pathlib import Path

from llm_variability.config import Encoder, Model
from llm_variability.fetch.weights import fetch_weights, write_manifest
from llm_variability.logs import stage_log, stage_parser


def main() -> None:
    parser = stage_parser("Bring a model or an encoder to this machine.")
    parser.add_argument("kind", choices=["model", "encoder"])
    parser.add_argument("--name", required=True)
    parser.add_argument("--settings", required=True, help="its part of the configuration, JSON")
    parser.add_argument("--output", required=True, type=Path, help="manifest to write")
    arguments = parser.parse_args()
    with stage_log(arguments.log):
        section = Model if arguments.kind == "model" else Encoder
        settings = section.model_validate(json.loads(arguments.settings))
        converted = arguments.output.with_suffix("")
        manifest = fetch_weights(arguments.kind, arguments.name, settings, converted)
        write_manifest(manifest, arguments.output)


if __name__ == "__main__":
    main()
