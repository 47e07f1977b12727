"""Where the statistics read: the relations of the models behind them, as dbt quotes them."""

from typing import NamedTuple

from psycopg import sql


class Inputs(NamedTuple):
    """Relations by the names of their models."""

    scoring_run: sql.SQL
    scoring_parameters: sql.SQL
    scoring_windows: sql.SQL
    interval_inputs: sql.SQL
    resilience_inputs: sql.SQL
    incompleteness_awareness: sql.SQL
    agent_periods: sql.SQL
