"""A survey as lines of text."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from llm_variability.status.failures import Failure
from llm_variability.status.layout import (
    fit,
    lay_out,
    make_printable,
    tell_ago,
    tell_count,
    tell_duration,
    tell_percent,
    tell_time,
)
from llm_variability.status.progress import Row, sum_rows
from llm_variability.status.survey import Survey

MANY_ROWS = 20
"""Above this, rows in which all or nothing is drawn are folded into a line each."""

MOST_FAILURES = 10

WIDE = 100
"""In this many columns there is room for the settings done."""

_HEADINGS = ("done", "wanted", "%", "tokens", "tok/s", "left", "failed", "empty", "cut")


def write_page(survey: Survey, width: int, is_whole: bool = False) -> list[str]:
    """Write a survey in lines of at most `width` columns.

    is_whole: leave no row out.
    """
    parts = (
        _wrap(_write_head(survey), width),
        _write_steps(survey, width),
        _write_draws(survey, width, is_whole),
        _write_stages(survey, width, is_whole),
        _wrap(_write_engines(survey), width),
        _wrap(_write_spending(survey), width),
        _write_failures(survey, width),
    )
    lines: list[str] = []
    for part in filter(None, parts):
        lines += ["", *part] if lines else part
    return [fit(make_printable(line), width) for line in lines]


def _wrap(
    sentences: Iterable[str], width: int, indent: str = "", most_lines: int | None = None
) -> list[str]:
    """Break sentences into lines, each sentence into no more than `most_lines`."""
    wrapper = textwrap.TextWrapper(
        width,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_on_hyphens=False,
        max_lines=most_lines,
        placeholder=" …",
    )
    return [line for sentence in sentences for line in wrapper.wrap(make_printable(sentence))]


# ------------------------------------------------------------------------------- head


def _write_head(survey: Survey) -> Iterator[str]:
    yield f"{survey.results}: {_tell_run(survey)}"
    drawn = []
    if (total := sum_rows(survey.of_draws())) is not None and total.wanted is not None:
        more = ", and more to come" if total.waiting else ""
        drawn.append(
            f"{total.tally.done:,} of {total.wanted:,} draws"
            f" ({tell_percent(total.tally.done, total.wanted)}){more}"
        )
    if survey.last_draw is not None:
        drawn.append(f"the last came {tell_ago(survey.last_draw, survey.now)}")
    rates = [row.tokens_per_s for row in survey.rows if row.tokens_per_s is not None]
    if rates:
        drawn.append(f"{tell_count(sum(rates))} tokens/s")
    if total is not None and total.seconds_left:
        drawn.append(f"about {tell_duration(total.seconds_left)} left")
    if drawn:
        yield "; ".join(drawn)
    if survey.log is not None and survey.log.steps is not None:
        yield f"{survey.log.steps_done:,} of {survey.log.steps:,} jobs of the run are done"


def _tell_run(survey: Survey) -> str:
    run = survey.run
    if run is None:
        return "no run has been here"
    who = "a run" if run.pid is None else f"run {run.pid} on {run.host}"
    began = f"begun {tell_time(run.began, survey.now)} ({tell_ago(run.began, survey.now)})"
    outcome = survey.log.outcome if survey.log is not None else None
    if run.state == "at work":
        return f"{who} is at work, {began}"
    if run.state == "elsewhere" and outcome in (None, "under way"):
        return f"at work by the lock file, which cannot be tried from here: {who}, {began}"
    end = {
        "done": "it is done",
        "failed": "it ended before all was done",
        "under way": "it was cut off: killed, or its machine went down",
        None: "how it ended is not known, as no log of Snakemake was found (see --directory)",
    }[outcome]
    return f"no run is at work; the last was {who}, {began}: {end}"


# ------------------------------------------------------------------------------ draws


def _write_cells(name: str, row: Row, is_wide: bool) -> list[str]:
    wanted = "?" if row.wanted is None else f"{row.wanted}{'+' if row.waiting else ''}"
    left = "?"
    if row.seconds_left is not None:
        left = tell_duration(row.seconds_left) if row.seconds_left else "-"
    return [
        name + (" *" if row.uncertain else ""),
        *([f"{row.batches_done}/{row.batches}"] if is_wide else []),
        str(row.tally.done),
        wanted,
        "?" if row.wanted is None else tell_percent(row.tally.done, row.wanted),
        tell_count(row.tally.tokens),
        "-" if row.tokens_per_s is None else tell_count(row.tokens_per_s),
        left,
        *(tell_count(each) for each in (row.tally.failed, row.tally.empty, row.tally.cut)),
    ]


def _write_table(heading: str, rows: Sequence[tuple[str, Row]], width: int) -> list[str]:
    is_wide = width >= WIDE
    cells = [_write_cells(name, row, is_wide) for name, row in rows]
    return lay_out([[heading, *(["settings"] if is_wide else []), *_HEADINGS], *cells], width)


def _write_steps(survey: Survey, width: int) -> list[str]:
    """Write what is drawn to become prompts, a line a study and step, while it is unfinished."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in survey.of_steps():
        groups.setdefault((row.study, row.step), []).append(row)
    unfinished = {
        key: rows for key, rows in groups.items() if not all(row.is_complete for row in rows)
    }
    begun = [
        (f"{study}: {step}", total)
        for (study, step), rows in unfinished.items()
        if (total := sum_rows(rows)) is not None and total.wanted is not None
    ]
    lines = _write_table("drawn for prompts", begun, width) if begun else []
    for study in dict.fromkeys(study for study, _ in unfinished):
        steps = [
            step
            for (of, step), rows in unfinished.items()
            if of == study and all(row.wanted is None for row in rows)
        ]
        if steps:
            lines.append(f"{study}: {', '.join(steps)}: nothing to draw yet")
    return lines


def _fold(rows: Sequence[Row], is_whole: bool) -> tuple[list[Row], list[str]]:
    """Take out the rows that need not be seen, where there are many; and what is said of them."""
    if is_whole or len(rows) <= MANY_ROWS:
        return list(rows), []
    complete = [row for row in rows if row.is_complete]
    idle = [row for row in rows if not row.is_begun and not row.is_complete]
    folded = []
    if complete:
        draws = sum(row.tally.done for row in complete)
        folded.append(f"{len(complete)} more rows are complete: {draws:,} draws (see --all)")
    if idle:
        folded.append(f"{len(idle)} more rows are not begun (see --all)")
    return [row for row in rows if row not in complete and row not in idle], folded


def _name_rows(rows: Sequence[Row], shown: Sequence[Row]) -> Iterator[tuple[str, Row]]:
    """Name the rows shown; with several models, those of a study stand under its sum."""
    for study in dict.fromkeys(row.study for row in rows):
        of_study = [row for row in rows if row.study == study]
        total = sum_rows(of_study)
        if len(of_study) > 1 and total is not None:
            yield study, total
        for row in shown:
            if row.study == study:
                yield (f"  {row.model}" if len(of_study) > 1 else f"{study} {row.model}"), row


def _tell_waiting(survey: Survey, study: str) -> str:
    """Say what the prompts of a study wait for, which are not there yet."""
    for step in ("paraphrases", "rewritings"):
        rows = [row for row in survey.of_steps() if row.study == study]
        if any(row.step.startswith(step) and not row.is_complete for row in rows):
            return f"its prompts wait for the {step}"
    return "its prompts are not made yet"


def _write_draws(survey: Survey, width: int, is_whole: bool) -> list[str]:
    shown, folded = _fold(survey.of_draws(), is_whole)
    lines = _write_table("draws", list(_name_rows(survey.of_draws(), shown)), width)
    lines += folded
    for study in dict.fromkeys(row.study for row in survey.of_draws() if row.wanted is None):
        lines.append(f"{study}: {_tell_waiting(survey, study)}")
    if any(row.uncertain for row in survey.rows):
        lines += _wrap(
            [
                "* by the journals written last: the weights are not to be seen here, so these may"
                " be of another configuration"
            ],
            width,
        )
    return lines


# -------------------------------------------------------------------- stages and others


def _write_stages(survey: Survey, width: int, is_whole: bool) -> list[str]:
    complete = [stage for stage in survey.stages if stage.is_complete]
    idle = [stage for stage in survey.stages if not stage.there]
    shown = [stage for stage in survey.stages if is_whole or stage not in [*complete, *idle]]
    lines = []
    if shown:
        rows = [
            [
                stage.name,
                f"{stage.there}/{stage.expected}",
                "-" if stage.newest is None else tell_time(stage.newest, survey.now),
            ]
            for stage in shown
        ]
        lines += lay_out([["stage", "files", "newest"], *rows], width)
    told = []
    if complete and not is_whole:
        newest = max(stage.newest or 0 for stage in complete)
        names = ", ".join(stage.name for stage in complete)
        told.append(f"complete: {names} (the newest file {tell_time(newest, survey.now)})")
    if idle and not is_whole:
        told.append(f"not begun: {', '.join(stage.name for stage in idle)}")
    return lines + _wrap(told, width)


def _write_engines(survey: Survey) -> Iterator[str]:
    is_over = survey.run is None or survey.run.state == "gone"
    for engine in survey.engines:
        times = "1 load" if engine.loads == 1 else f"{engine.loads} loads"
        since = f"{tell_time(engine.since, survey.now)} ({tell_ago(engine.since, survey.now)})"
        if not engine.is_up:
            told = f"stopped {since}, since {engine.reason}"
        elif is_over:
            told = f"load began {since}, and no end is told"
        else:
            told = f"load began {since}"
        yield f"engine {engine.model}: {told}; {times}"


def _write_spending(survey: Survey) -> Iterator[str]:
    for spent in survey.spending:
        tokens = f"{spent.tokens:,}"
        if spent.tokens_allowed is not None:
            tokens += f" of {spent.tokens_allowed:,}"
        told = f"endpoint {spent.model}: {spent.requests:,} requests, {tokens} tokens"
        if spent.money is not None or spent.money_allowed is not None:
            told += f", {spent.money or 0:,.4f}"
            if spent.money_allowed is not None:
                told += f" of {spent.money_allowed:,.4f}"
            told += " in money"
        if spent.unknown:
            told += f" (with the worst case of {spent.unknown:,} in flight or of unknown cost)"
        yield told


def _write_failures(survey: Survey, width: int) -> list[str]:
    log, heading = survey.log, "failed jobs of the last run"
    if log is None:
        told = f"{heading}: not known, as no log of Snakemake was found (see --directory)"
        return _wrap([told], width) if survey.run is not None else []
    told = f"{heading}: {len(log.failures) or 'none'}"
    if log.recovered:
        told += f"; {log.recovered} more failed at first and were done when tried again"
    lines = _wrap([told], width)
    lines += _wrap(map(_tell_failure, log.failures[:MOST_FAILURES]), width, "  ", most_lines=3)
    if len(log.failures) > MOST_FAILURES:
        lines.append(f"  and {len(log.failures) - MOST_FAILURES} more, in {log.path}")
    return lines


def _tell_failure(failure: Failure) -> str:
    what = failure.rule if failure.jobs == 1 else f"{failure.jobs} jobs in one ({failure.rule})"
    if failure.wildcards:
        what += f" {re.sub(r'[a-z_]+=', '', failure.wildcards)}"
    where = f" [{failure.log}]" if failure.log is not None else ""
    again = " (is tried again)" if failure.is_tried_again else ""
    told = "; ".join(part for part in (failure.told, failure.message) if part) or "no word in a log"
    return f"{what}{where}{again}: {told}"
