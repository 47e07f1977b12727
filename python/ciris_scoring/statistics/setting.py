"""What limits are computed with, whatever the data."""

import json
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from psycopg import sql

from ciris_scoring.basics.as_of import PERIODS
from ciris_scoring.basics.errors import StepError
from ciris_scoring.statistics.inputs import Parameters, Window
from ciris_scoring.statistics.session import Session


class Setting(NamedTuple):
    """The parameters, windows and times of a run."""

    parameters: Parameters
    windows: tuple[Window, ...]
    period: timedelta
    as_of: datetime
    """The run's as-of, the last one that is scored."""
    cutoff: datetime | None
    """As-ofs after it are scored; None for all."""

    @property
    def periods_per_day(self) -> int:
        """1 or 24."""
        return timedelta(days=1) // self.period

    @property
    def longest_memory(self) -> timedelta:
        """Time before an as-of that some row depends on."""
        return timedelta(days=max(window.memory_days for window in self.windows))


def read_setting(session: Session, parameters: sql.SQL, windows: sql.SQL, run: sql.SQL) -> Setting:
    """Read the parameters, the windows, the length of a period and the as-ofs of this run.

    :param parameters: relation of ``int_scoring_parameters``; then ``scoring_windows`` and ``int_scoring_run``.
    :raises StepError: a parameter is missing or not what it should be.
    """
    texts = dict(session.rows(sql.SQL("select parameter_name, parameter_value from {}").format(parameters)))
    values: dict[str, Any] = {}
    for name in Parameters._fields:
        try:
            values[name] = json.loads(texts[name] or "")
        except (KeyError, ValueError) as error:
            raise StepError(
                f"int_scoring_parameters: {name} is {texts.get(name, 'missing')!r}, which the statistics cannot "
                "use. Build it again: dbt build --select int_scoring_parameters"
            ) from error
    rows = session.rows(
        sql.SQL("select window_days, baseline_days, coherence_days from {} order by window_days").format(
            windows
        )
    )
    [(scoring_period, as_of, cutoff)] = session.rows(
        sql.SQL("select scoring_period, as_of, case when isfinite(cutoff) then cutoff end from {}").format(
            run
        )
    )
    return Setting(
        Parameters(**values),
        tuple(Window(*row) for row in rows),
        PERIODS[scoring_period],
        as_of,
        cutoff,
    )
