"""What every stage's command line shares: one log, on standard error and in a file."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

log = logging.getLogger("llm_variability")


def stage_parser(description: str) -> argparse.ArgumentParser:
    """Begin a stage's command line; every stage takes `--log FILE`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--log", type=Path, help="file that receives the log as well")
    return parser


@contextmanager
def stage_log(path: Path | None) -> Iterator[None]:
    """Log to standard error and to a file; end with one line where the fault is the input's.

    A ValueError or OSError raised inside is bad input: it becomes one line and exit status 1.
    Any other exception is a fault of ours and leaves its traceback in both places.
    """
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)]
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        handlers.append(logging.FileHandler(path, mode="w", encoding="utf-8"))
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", handlers=handlers
    )
    try:
        yield
    except (ValueError, OSError) as error:
        log.error("%s", error)
        log.debug("traceback", exc_info=True)
        sys.exit(1)
    except Exception:
        log.exception("this is a fault of llm-variability, not of your input")
        sys.exit(1)
