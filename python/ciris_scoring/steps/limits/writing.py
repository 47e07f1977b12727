"""What is written: the limits of a block's rows, and what they took from its fleets."""

import psycopg
from psycopg import sql

from ciris_scoring.basics.connection import one_row
from ciris_scoring.basics.relations import Relations
from ciris_scoring.steps.fixed_copy import write_numbers
from ciris_scoring.steps.intervals import COMPONENTS, METHOD_VERSION, SCORE_LEVEL, FleetValues, Intervals
from ciris_scoring.steps.intervals.inputs import Floats, Integers
from ciris_scoring.steps.intervals.residuals import EFFECTS
from ciris_scoring.steps.limits.block import Block
from ciris_scoring.steps.limits.setting import Setting
from ciris_scoring.steps.limits.waiting import FLEET_KEY
from ciris_scoring.steps.resilience_step import KEY
from ciris_scoring.steps.step import column_list

FACTOR_SCORES = ("c_score", "i_int_score", "r_score", "i_inc_score", "s_score")
"""The columns of the factors, in the order of ``FACTORS``."""

WITHOUT_DESIGN_EFFECT = ("mttr_hours", "q_deferral")


def create_limit_table(cursor: psycopg.Cursor) -> None:
    """Create the temporary table of limits, by the numbers of their rows."""
    numbers = sql.SQL(", ").join(sql.SQL("{} float8").format(sql.Identifier(c)) for c in _limit_columns())
    cursor.execute(
        sql.SQL("create temporary table ciris_limits (row_id int8, driver int8, {}) on commit drop").format(
            numbers
        )
    )


def add_limits(cursor: psycopg.Cursor, row_ids: Integers, limits: Intervals) -> None:
    """Put the limits of a chunk's rows into ``ciris_limits``."""
    write_numbers(cursor, "ciris_limits", {"row_id": row_ids, **_columns_of(limits)})


def _limit_columns() -> list[str]:
    """Columns of limits and design effects, in the order in which they are written."""
    limited = [
        "capacity_score",
        *FACTOR_SCORES,
        "capacity_score_steady",
        *(c for c in COMPONENTS if c not in FACTOR_SCORES),
    ]
    return [f"{name}_{side}" for name in limited for side in ("low", "high")] + [
        f"{component}_design_effect" for component in COMPONENTS if component not in WITHOUT_DESIGN_EFFECT
    ]


def _columns_of(limits: Intervals) -> dict[str, Integers | Floats]:
    """Limits and design effects by column, NaN for null, and the driver's index."""
    columns: dict[str, Integers | Floats] = {
        "driver": limits.interval_driver,
        "capacity_score_low": limits.capacity_score_low,
        "capacity_score_high": limits.capacity_score_high,
        "capacity_score_steady_low": limits.capacity_score_steady_low,
        "capacity_score_steady_high": limits.capacity_score_steady_high,
    }
    for index, component in enumerate(COMPONENTS):
        columns[f"{component}_low"] = limits.component_low[:, index]
        columns[f"{component}_high"] = limits.component_high[:, index]
        columns[f"{component}_design_effect"] = limits.design_effect[:, index]
    for index, score in enumerate(
        FACTOR_SCORES
    ):  # S is a factor and its own component: the factor's limits count
        columns[f"{score}_low"] = limits.factor_low[:, index]
        columns[f"{score}_high"] = limits.factor_high[:, index]
    return {name: columns[name] for name in ("driver", *_limit_columns())}


def write_limits(cursor: psycopg.Cursor, relations: Relations) -> None:
    """Take what is in ``ciris_limits`` into the table of limits."""
    names = _limit_columns()
    cursor.execute(
        sql.SQL("""
        insert into {limits} ({key}, inputs_digest, {names}, interval_driver, computed_at)
        select {key}, inputs_digest, {values}, (%s::text[])[driver + 1], now()
        from ciris_limits
        inner join ciris_rows using (row_id)
        """).format(
            limits=relations["int_score_limits"],
            key=column_list(KEY),
            names=column_list(names),
            values=sql.SQL(", ").join(sql.SQL("nullif({}, 'NaN')").format(sql.Identifier(n)) for n in names),
        ),
        [list(COMPONENTS)],
    )
    cursor.execute("truncate ciris_limits")


def write_fleet_values(
    cursor: psycopg.Cursor, relations: Relations, setting: Setting, block: Block, values: FleetValues
) -> None:
    """Write what the limits of a block's fleets took from them."""
    names = (
        *(*FLEET_KEY, "inputs_digest", "n_agents"),
        *(f"{effect}_correlation" for effect in EFFECTS),
        *("episode_cv", "z_worse", "z_better", "method_version", "computed_at"),
    )
    now = one_row(cursor.execute("select now()"))[0]
    index_of = {window.window_days: index for index, window in enumerate(setting.windows)}
    statement = sql.SQL("copy {} ({}) from stdin").format(
        relations["int_interval_fleet_values"], column_list(names)
    )
    with cursor.copy(statement) as copy:
        for fleet in block.fleets:
            at = (index_of[fleet.window_days], (fleet.as_of - block.origin) // setting.period)
            icc, episode_cv = values.icc[at].tolist(), float(values.episode_cv[at])
            copy.write_row((*fleet, *icc, episode_cv, *SCORE_LEVEL, METHOD_VERSION, now))
