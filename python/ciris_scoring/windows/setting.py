"""Read the parameters, the windows and the as-ofs of a run."""

import json
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from psycopg import sql

from ciris_scoring.errors import StepError
from ciris_scoring.names import PERIODS
from ciris_scoring.windows.inputs import Parameters, Window
from ciris_scoring.windows.session import Session


class Setting(NamedTuple):
    """Parameters, windows and as-ofs of a run."""

    parameters: Parameters
    windows: tuple[Window, ...]
    period: timedelta
    """Length of a scoring period: one day or one hour."""
    as_of: datetime
    """As-of of the run, which is the last as-of that is scored."""
    cutoff: datetime | None
    """Time after which the run scores the as-ofs; None if it scores all as-ofs."""
    longest_window: timedelta
    """Length of the longest window."""
    longest_horizon: timedelta
    """Longest lookback horizon of any window. Earlier traces do not influence the scores of an as-of."""

    @property
    def window_horizon(self) -> timedelta:
        """Longest time before an as-of that any window with its baseline covers."""
        return timedelta(days=max(one.window_days + one.baseline_days for one in self.windows))

    @property
    def periods_per_day(self) -> int:
        """Number of scoring periods per day: 1 or 24."""
        return timedelta(days=1) // self.period


def read_setting(session: Session, parameters: sql.SQL, windows: sql.SQL, run: sql.SQL) -> Setting:
    """Read the parameters, the windows, the length of a period and the as-ofs of this run.

    :param parameters: relation of ``int_scoring_parameters``.
    :param windows: relation of ``scoring_windows``.
    :param run: relation of ``int_scoring_run``.
    :raises StepError: a parameter is missing or is not JSON.
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
        sql.SQL("select window_days, baseline_days, coherence_days from {} order by window_days").format(windows)
    )
    [(scoring_period, *times)] = session.rows(
        sql.SQL(
            "select scoring_period, as_of, case when isfinite(cutoff) then cutoff end, longest_window, longest_horizon"
            " from {}"
        ).format(run)
    )
    return Setting(Parameters(**values), tuple(Window(*row) for row in rows), PERIODS[scoring_period], *times)
