"""A run of the command line: the job, then fleet table, report, JSON summary, and the message about the run."""

import contextlib
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import psycopg
from psycopg import sql

from ciris_scoring.database.as_of import text as time_text
from ciris_scoring.database.connection import connect, one_row, snapshot
from ciris_scoring.database.project import Project
from ciris_scoring.database.relations import Relations
from ciris_scoring.database.terminal import printable, progress, say
from ciris_scoring.errors import DatabaseError, one_line
from ciris_scoring.job import notify
from ciris_scoring.job import run as job
from ciris_scoring.job.run_log import RunRecord
from ciris_scoring.marts import scores
from ciris_scoring.marts.alerts import (
    Alert,
    News,
    Verdicts,
    alerts,
    changed_alerts,
    changed_verdicts,
    read_verdicts,
    shared_causes,
    silent_agents,
)
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.reference import windows
from ciris_scoring.marts.runs import why_unscored
from ciris_scoring.marts.verdict import published_threshold, threshold_remarks
from ciris_scoring.show.formats import json_text
from ciris_scoring.show.tables import fleet_table

MOST_LINES = 20
"""Maximum number of lines in the text of a message. The JSON of a message has all alerts and verdicts."""
READ_BEFORE = (
    *("fct_fleet_capacity", "fct_capacity_alerts", "fct_red_flags"),
    *("fct_capacity_scores", "fct_score_certainty", "fct_verdicts"),
)
"""Marts that the role must be able to read before the run. Otherwise all alerts and verdicts count as new."""

TEST = json_text({"title": "CIRIS scores: test", "text": "Messages of ciris-scoring arrive here.", "message": None})
"""Message of ``--notify-test``."""


@dataclass
class AfterRun:
    """Actions at the end of a run."""

    record: RunRecord
    report_file: Path | None = None
    for_machines: bool = False
    """Whether stdout gets only one JSON object, both if the run succeeds and if it fails."""
    addresses: Sequence[str] = ()
    """Addresses to which the message about the run is posted."""
    news: News = field(default_factory=News)
    _known: list[Alert] = field(default_factory=list)
    _verdicts: Verdicts = field(default_factory=dict)

    @contextlib.contextmanager
    def summed_up(self) -> Iterator[None]:
        """Run the block, and then, even after an error, print the JSON summary and send the message about the run."""
        try:
            yield
        except BaseException as error:
            self.record.end_with(error)
            raise
        finally:
            if self.for_machines:
                click.echo(self._summary())
            if message := message_of(self.record, self.news):
                notify.send(self.addresses, json_text(message))

    def run(self, project: Project, as_of: str | None, *, full_refresh: bool, allow_rescoring: bool) -> datetime:
        """Score the fleet, show it, and write the report. Return the as-of."""
        started = time.monotonic()
        options = {"full_refresh": full_refresh, "allow_rescoring": allow_rescoring}
        relations = job.run(project, as_of, self.record, **options, before=self.read_alerts)
        moment = self.record.as_of
        assert moment is not None
        with connect(project) as connection:
            self.show_fleet(connection, relations, moment)
            with snapshot(connection):
                remarks = [
                    *why_unscored(Marts(connection, relations)),
                    *job.empty_sources(connection, project, moment),
                    *_late_remarks(connection, relations),
                ]
            for line in remarks:
                say(line)
            self.write_report(connection, relations)
        progress(f"Done in {time.monotonic() - started:.0f} s.")
        return moment

    def read_alerts(self, connection: psycopg.Connection, relations: Relations) -> None:
        """Read the alerts and verdicts that were published before the run. Marts of another version of the project,
        which the run may repair, are not read."""
        marts = Marts(connection, relations)
        if not marts.may_read(*READ_BEFORE) or marts.missing():
            return
        newest = scores.newest(marts)
        if newest is not None:
            self._known = alerts(marts, newest)
            if self.addresses:
                self._verdicts = read_verdicts(marts, newest)

    def show_fleet(self, connection: psycopg.Connection, relations: Relations, moment: datetime) -> None:
        """Print the fleet table, and find the news since the run before."""
        with snapshot(connection):
            marts = Marts(connection, relations)
            found = changed_alerts(self._known, alerts(marts, moment), silent_agents(marts, moment))
            self.news = News(*found)
            if self.addresses:
                causes = shared_causes(
                    score for window in windows(marts) for score in scores.scores(marts, moment, window.window_days)
                )
                self.news.changed_verdicts = changed_verdicts(self._verdicts, read_verdicts(marts, moment), causes)
            try:
                for line in threshold_remarks(marts, published_threshold(marts)):
                    say(line)
                table = None if self.for_machines else fleet_table(connection, relations, moment)
            except DatabaseError as error:
                table = f"The fleet table is not shown. {error.message} {error.hint}"
        if table is not None:
            click.echo(table)

    def write_report(self, connection: psycopg.Connection, relations: Relations) -> None:
        """Write the report if one is requested."""
        if self.report_file is not None:
            from ciris_scoring.show import report

            report.write(report.read_report(connection, relations, None, json=False), self.report_file)
            progress(f"The report is in {self.report_file}.")

    def _summary(self) -> str:
        """Return a JSON object of the run: the known columns of ``fct_scoring_runs``, and the new alerts."""
        run = asdict(self.record)
        run["scoring_run_id"] = run.pop("run_id")
        return json_text(run | {"new_alerts": [asdict(alert) for alert in self.news.new_alerts]})


def message_of(record: RunRecord, news: News) -> dict[str, Any] | None:
    """Return the message of a run, or None if there is no news."""
    has_failed = record.outcome in ("failed", "refused") or record.exit_code == 1
    counts = news.counts()
    if not has_failed and not counts:
        return None
    if has_failed:
        counts.insert(0, "run published, with an error" if record.outcome == "published" else f"run {record.outcome}")
    as_of = f" as of {time_text(record.as_of)}" if record.as_of else ""
    title = f"CIRIS scores{as_of}: {', '.join(counts)}"
    lines = [title, *(part for part in (record.message, record.remedy) if part)]
    lines += news.lines()
    if len(lines) > MOST_LINES:
        lines[MOST_LINES:] = [f"... and {len(lines) - MOST_LINES:,} more"]
    return {
        "title": title,
        "text": "\n".join(_inert(printable(one_line(line))) for line in lines),
        "scoring_run_id": record.run_id,
        "as_of": record.as_of,
        "outcome": record.outcome,
        "message": record.message,
        "remedy": record.remedy,
    } | asdict(news)


def _inert(line: str) -> str:
    """Return a line in which chats find no mention and no link, although agents choose their names: an invisible space
    (U+200B) splits what begins a mention, an HTML tag, or the address of a link."""
    return re.sub(r"(?<=[@<!])|(?<=])(?=\()|(?<=:)(?=//)", "\u200b", line)


def _late_remarks(connection: psycopg.Connection, relations: Relations) -> list[str]:
    """Return a remark on data that arrived after its scores were final, with the command that scores it."""
    query = sql.SQL(
        """
        select
            coalesce(sum(n) filter (where issue = 'late_trace'), 0)::bigint,
            coalesce(sum(n) filter (where issue = 'late_outcome'), 0)::bigint,
            min(first_as_of),
            max(last_as_of)
        from {}
        """
    ).format(relations["fct_data_quality"])
    n_traces, n_outcomes, first, last = one_row(connection.execute(query))
    if first is None:
        return []
    first, last = time_text(first), time_text(last)
    return [
        f"Note: the scores as of {first} to {last} would be different if they were computed now (traces that came "
        f"late: {n_traces:,}; traces with an outcome or another event that came late: {n_outcomes:,}). To score these "
        "and all later ones again: "
        f"ciris-scoring run --allow-rescoring --vars 'ciris_rescore_from: {first}'"
    ]
