"""Everything that is told of a results folder, as plain values."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from llm_variability.config import ConfigError, Settings, load_settings, shown
from llm_variability.status.batches import DRAWS
from llm_variability.status.engines import Engine, read_engines
from llm_variability.status.failures import RunLog, find_log, forget_older, read_log
from llm_variability.status.progress import ProgressReader, Row
from llm_variability.status.runs import Run, find_run
from llm_variability.status.spending import Spent, read_spending
from llm_variability.status.stages import StageFiles, count_files


@dataclass(frozen=True)
class Survey:
    """The state of a results folder at a time (`now`, in seconds of the epoch).

    rows: draws by step, study and model. log: of the last run; None if it was not found.
    """

    results: str
    now: float
    run: Run | None
    log: RunLog | None
    rows: tuple[Row, ...]
    stages: tuple[StageFiles, ...]
    engines: tuple[Engine, ...]
    spending: tuple[Spent, ...]

    def of_draws(self) -> list[Row]:
        """The rows of the studies' own draws, in which every model answers every prompt."""
        return [row for row in self.rows if row.step == DRAWS]

    def of_steps(self) -> list[Row]:
        """The rows of draws whose answers become prompts."""
        return [row for row in self.rows if row.step != DRAWS]

    @property
    def last_draw(self) -> float | None:
        drawn = [row.last_draw for row in self.rows if row.last_draw is not None]
        return max(drawn, default=None)

    def to_json(self) -> dict[str, Any]:
        """Give the same as plain JSON values."""
        value = asdict(self)
        if self.log is not None:
            value["log"]["path"] = str(self.log.path)
        return value


def read_settings(results: Path) -> Settings:
    """Read what a results folder was made with.

    Raises ConfigError, in one line a problem, if there is no folder, or it holds no results.
    """
    if not results.is_dir():
        raise ConfigError(f"{shown(results)}: is no folder")
    file = results / "config.yaml"
    if not file.is_file():
        raise ConfigError(
            f"{shown(results)}: has no config.yaml, which a run of the whole study writes first,"
            " so there is nothing to compare its files with"
        )
    return load_settings([file])


class Surveyor:
    """Surveys a results folder; asked again, it reads what has changed since.

    directory: where the run works, if not above the results folder or here.
    """

    def __init__(self, results: Path, directory: Path | None = None) -> None:
        self.results, self.directory = results, directory
        self._progress = ProgressReader(results)
        self._settings: Settings | None = None
        self._log: tuple[tuple[Path, int, int], RunLog] | None = None

    def survey(self, now: float) -> Survey:
        """Read everything. Raises ConfigError as `read_settings`, the first time."""
        settings = self._read_settings()
        run, log = find_run(self.results), self._read_log(settings)
        return Survey(
            str(self.results),
            now,
            run,
            forget_older(log, run.began) if run is not None and log is not None else log,
            tuple(self._progress.read(settings, now)),
            tuple(count_files(settings, self.results)),
            tuple(read_engines(settings, self.results)),
            tuple(read_spending(settings, self.results)),
        )

    def _read_settings(self) -> Settings:
        """Read the settings; those of last time while a run that begins writes them anew."""
        try:
            self._settings = read_settings(self.results)
        except ConfigError:
            if self._settings is None:
                raise
        return self._settings

    def _read_log(self, settings: Settings) -> RunLog | None:
        path = find_log(self.results, settings.results, self.directory)
        if path is None:
            return None
        try:
            status = path.stat()
            state = path, status.st_mtime_ns, status.st_size
            if self._log is None or self._log[0] != state:
                self._log = state, read_log(path)
        except OSError:
            return None
        return self._log[1]
