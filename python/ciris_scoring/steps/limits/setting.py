"""What limits are computed with, whatever the data."""

from datetime import timedelta
from typing import NamedTuple

import psycopg
from psycopg import sql

from ciris_scoring.basics.connection import one_row
from ciris_scoring.basics.errors import StepError
from ciris_scoring.basics.relations import Relations
from ciris_scoring.steps.intervals import METHOD_VERSION, Parameters, Window
from ciris_scoring.steps.step import read_parameter_texts


class Setting(NamedTuple):
    """What limits are computed with, whatever the data."""

    parameters: Parameters
    windows: tuple[Window, ...]
    period: timedelta
    spelling: str
    """As the inputs have it in ``step_parameters``."""

    @property
    def periods_per_day(self) -> int:
        """1 or 24."""
        return timedelta(days=1) // self.period

    @property
    def longest_memory(self) -> timedelta:
        """Time before an as-of that some row depends on."""
        return timedelta(days=max(window.memory_days for window in self.windows))


def read_setting(cursor: psycopg.Cursor, relations: Relations) -> Setting:
    """Read the parameters, the windows and the length of a period that the first half of the run used.

    :raises StepError: a parameter is missing or not what it should be.
    """
    texts = read_parameter_texts(cursor, relations, Parameters._fields)
    values: dict[str, float | int | bool] = {}
    for name, default in Parameters._field_defaults.items():
        text = texts.get(name) or ""
        try:
            values[name] = _is_true(text) if isinstance(default, bool) else type(default)(text)
        except ValueError as error:
            raise StepError(
                f"int_scoring_parameters: {name} is {texts.get(name, 'missing')!r}, "
                "which the step of the intervals cannot use.",
                "Rebuild it: dbt build --select int_scoring_parameters",
            ) from error
    windows = cursor.execute(
        sql.SQL("select window_days, baseline_days, coherence_days from {} order by window_days").format(
            relations["scoring_windows"]
        )
    ).fetchall()
    [scoring_period] = one_row(
        cursor.execute(sql.SQL("select scoring_period from {}").format(relations["int_scoring_run"]))
    )
    hours = {"day": 24, "hour": 1}[scoring_period]
    spelling = (str(METHOD_VERSION), str(hours), *(str(texts[name]) for name in Parameters._fields))
    return Setting(
        Parameters(**values),  # type: ignore[arg-type]
        tuple(Window(*window) for window in windows),
        timedelta(hours=hours),
        "|".join(spelling),
    )


def _is_true(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"
