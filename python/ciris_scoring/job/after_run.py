"""End of a run: fleet table, report, JSON summary, and the message about the run."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path

import click
import psycopg

from ciris_scoring.database.relations import Relations
from ciris_scoring.database.terminal import progress, say
from ciris_scoring.errors import DatabaseError
from ciris_scoring.job import notify
from ciris_scoring.job.run_log import RunRecord
from ciris_scoring.marts import fleet
from ciris_scoring.marts.alerts import Alert, alerts, last_traces
from ciris_scoring.marts.marts import Marts, read_only
from ciris_scoring.marts.news import News, Verdicts, changed_alerts, changed_verdicts, read_verdicts, shared_causes
from ciris_scoring.marts.parameters import windows
from ciris_scoring.marts.permissions import permissions, published_permission, threshold_warning
from ciris_scoring.show.fleet_table import fleet_table
from ciris_scoring.show.spreadsheet import json_text

READ_BEFORE = (
    *("fct_fleet_capacity", "fct_capacity_alerts", "fct_red_flags"),
    *("fct_capacity_scores", "fct_score_certainty", "fct_verdicts"),
)
"""Marts that the role must be able to read before the run. Otherwise all alerts and verdicts count as new."""


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
            notify.send(self.addresses, notify.message_of(self.record, self.news))

    def read_alerts(self, connection: psycopg.Connection, relations: Relations) -> None:
        """Read the alerts and verdicts that were published before the run. Marts of another version of the project,
        which the run may repair, are not read."""
        marts = Marts(connection, relations)
        if not marts.may_read(*READ_BEFORE) or marts.missing() or marts.lacking():
            return
        newest = fleet.newest(marts)
        if newest is not None:
            self._known = alerts(marts, newest.as_of)
            if self.addresses:
                self._verdicts = read_verdicts(marts, newest.as_of)

    def show_fleet(self, connection: psycopg.Connection, relations: Relations, moment: datetime) -> None:
        """Print the fleet table, and find the news since the run before."""
        with read_only(connection):
            marts = Marts(connection, relations)
            found = changed_alerts(self._known, alerts(marts, moment), last_traces(marts, moment))
            self.news = News(*found)
            if self.addresses:
                causes = shared_causes(
                    score for window in windows(marts) for score in fleet.scores(marts, moment, window.window_days)
                )
                self.news.changed_verdicts = changed_verdicts(self._verdicts, read_verdicts(marts, moment), causes)
            try:
                published = published_permission(marts, 0).threshold
                if warning := threshold_warning(permissions(marts), published):
                    say(f"Warning: {warning}")
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
