"""python -m llm_variability.status RESULTS: tell how far a run is, by the files alone."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path

from llm_variability.config import ConfigError
from llm_variability.status.layout import make_printable
from llm_variability.status.page import write_page
from llm_variability.status.survey import Survey, Surveyor

_CLEAR = "\x1b[H\x1b[2J\x1b[3J"
_LEAST_WIDTH = 60


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0.1 <= seconds <= 86400:
        raise ValueError(text)
    return seconds


_seconds.__name__ = "number of seconds (from 0.1 to a day)"


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m llm_variability.status",
        description="Tell how far a run is: draws, other stages, engines, costs and failures."
        " Reads files alone, of a run at work, here or on another machine, or of one that ended.",
    )
    parser.add_argument("results", type=Path, help="the results folder")
    parser.add_argument(
        "--watch",
        nargs="?",
        type=_seconds,
        const=5.0,
        metavar="SECONDS",
        help="tell it again every few seconds (5 unless given), until Ctrl-C",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a survey")
    parser.add_argument("--all", action="store_true", help="leave no row out")
    parser.add_argument(
        "--directory",
        type=Path,
        help="the folder that snakemake runs in, if it is neither above the results nor this one",
    )
    return parser.parse_args(arguments)


def _crop(lines: list[str], height: int) -> list[str]:
    """Keep the lines that a screen has room for."""
    if len(lines) < height:
        return lines
    return [*lines[: height - 2], f"({len(lines) - height + 2} more lines do not fit the screen)"]


def write_json(survey: Survey) -> str:
    """Write a survey as one JSON object in ASCII, without a character that a terminal obeys."""
    return json.dumps(survey.to_json()).replace("\x7f", "\\u007f")


def show(surveyor: Surveyor, arguments: argparse.Namespace) -> None:
    """Write one survey to standard output."""
    survey = surveyor.survey(time.time())
    if arguments.json:
        print(write_json(survey), flush=True)
        return
    size = shutil.get_terminal_size((100, 40))
    lines = write_page(survey, max(size.columns, _LEAST_WIDTH), arguments.all)
    is_screen = arguments.watch is not None and sys.stdout.isatty()
    if is_screen:
        lines = _crop(lines, size.lines)
    text = "\n".join(lines)
    print(f"{_CLEAR}{text}" if is_screen else text, flush=True)


def _run(arguments: argparse.Namespace) -> None:
    surveyor = Surveyor(arguments.results, arguments.directory)
    show(surveyor, arguments)
    while arguments.watch is not None:
        time.sleep(arguments.watch)
        if not arguments.json and not sys.stdout.isatty():
            print()
        show(surveyor, arguments)


def main() -> None:
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    arguments = parse_arguments()
    try:
        _run(arguments)
    except ConfigError as error:
        sys.exit("\n".join(map(make_printable, str(error).splitlines())))
    except KeyboardInterrupt:
        sys.exit(0)
    except BrokenPipeError:
        # Whoever read it has seen enough; at exit, Python must not write to the pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


if __name__ == "__main__":
    main()
