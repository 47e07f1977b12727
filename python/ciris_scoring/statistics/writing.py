"""What is written: the statistics of a block's rows, into the temporary table that the model's query reads."""

import numpy as np
from psycopg import sql

from ciris_scoring.basics.components import COMPONENT_ROWS
from ciris_scoring.basics.statements import column_list
from ciris_scoring.statistics.alike import Alike
from ciris_scoring.statistics.behaviour import PARTS as behaviour_parts
from ciris_scoring.statistics.behaviour import Behaviour
from ciris_scoring.statistics.design_effects import FleetValues
from ciris_scoring.statistics.fixed_copy import write_numbers
from ciris_scoring.statistics.inputs import METHOD_VERSION, METRICS, SCORE_LEVEL, Floats, Integers, Rows
from ciris_scoring.statistics.intervals import COMPONENTS, FACTORS, Intervals
from ciris_scoring.statistics.residuals import EFFECTS
from ciris_scoring.statistics.session import Session

KEY = ("agent_id_hash", "as_of", "window_days")
FACTOR_SCORES = ("c_score", "i_int_score", "r_score", "i_inc_score", "s_score")
"""The columns of the factors, in the order of ``FACTORS``."""
SCORES_WITH_LIMITS = ("capacity_score", *FACTOR_SCORES, "capacity_score_steady")
"""The columns of scores that have limits, COLUMN_low and COLUMN_high."""

DELTAS = tuple(f"delta_{metric}" for metric in METRICS)
BEHAVIOUR = tuple(f"behaviour_{name}" for name in Behaviour._fields)
INTEGERS = ("n_measured_metrics", "driver", "deferrals_are_worse", *Alike._fields)

Columns = dict[str, Integers | Floats]


def create_statistics_tables(session: Session) -> None:
    """Create the temporary tables of a block's numbers, by the numbers of their rows, and of all finished rows."""
    numbers = sql.SQL(", ").join(
        sql.SQL("{} int8" if name in INTEGERS else "{} float8").format(sql.Identifier(name))
        for name in column_names()
    )
    session.execute(
        sql.SQL("""
        create temporary table ciris_numbers (row_id int8, {numbers}) on commit drop;
        create temporary table ciris_statistics (
            agent_id_hash text, as_of timestamptz, window_days int4, inputs_digest text, {numbers}
        ) on commit drop
        """).format(numbers=numbers)
    )


def add_numbers(
    session: Session,
    row_ids: Integers,
    rows: Rows,
    fleet: FleetValues,
    limits: Intervals,
    episodes: Columns,
    losses: dict[str, Floats],
    behaviour: Behaviour,
    shared: Alike,
) -> None:
    """Put the statistics of a chunk's rows into ``ciris_numbers``; NaN for null.

    :param episodes: by column.
    :param losses: by part.
    """
    columns: Columns = {
        **dict(zip(DELTAS, limits.drift.T, strict=True)),
        "delta_drift": limits.component[:, COMPONENTS.index("delta_drift")],
        "n_measured_metrics": np.count_nonzero(~np.isnan(limits.drift), axis=-1).astype("int64"),
        "r_score": limits.factor[:, FACTORS.index("R")],
        "r_score_steady": limits.r_score_steady,
        "sigma": limits.sigma,
        "sigma_max": limits.sigma_max,
        "s_score": limits.s_score,
        **_limits(limits),
        "driver": limits.interval_driver,
        **_fleet_values(fleet, rows),
        **episodes,
        **shared._asdict(),
        **{f"{part}_loss": np.where(np.isinf(values), np.nan, values) for part, values in losses.items()},
        **{
            f"{name}_{part}": values[:, at]
            for name, values in zip(BEHAVIOUR, behaviour, strict=True)
            for at, part in enumerate(behaviour_parts)
        },
    }
    write_numbers(
        session, "ciris_numbers", {"row_id": row_ids, **{name: columns[name] for name in column_names()}}
    )


def finish_block(session: Session) -> None:
    """Give the rows of ``ciris_numbers`` their keys, in ``ciris_statistics``."""
    session.execute(
        sql.SQL("""
        insert into ciris_statistics
        select {key}, inputs_digest, {names}
        from ciris_numbers
        inner join ciris_rows using (row_id);
        truncate ciris_numbers
        """).format(key=column_list(KEY), names=column_list(column_names()))
    )


def statistics_query() -> str:
    """Return the query of the finished rows, with the columns of ``int_window_statistics``."""

    def value(name: str) -> sql.Composed:
        return sql.SQL("nullif({}, 'NaN')").format(sql.Identifier(name))

    arrays = {f"{name}_{part}" for name in BEHAVIOUR for part in behaviour_parts}
    columns = [
        *(
            sql.SQL("{} as {}").format(value(name), sql.Identifier(name))
            for name in column_names()
            if name not in INTEGERS and name not in arrays
        ),
        *(
            sql.SQL("array[{}] as {}").format(
                sql.SQL(", ").join(value(f"{name}_{part}") for part in behaviour_parts), sql.Identifier(name)
            )
            for name in BEHAVIOUR
        ),
    ]
    query = sql.SQL("""
        select
            {key}, inputs_digest, n_measured_metrics, {columns}, {shared},
            deferrals_are_worse = 1 as deferrals_are_worse,
            ({components}::text[])[driver + 1] as interval_driver,
            {z_worse}::float8 as z_worse, {z_better}::float8 as z_better, {version} as method_version,
            now() as computed_at
        from pg_temp.ciris_statistics
        """).format(
        key=column_list(KEY),
        columns=sql.SQL(", ").join(columns),
        shared=column_list(Alike._fields),
        components=sql.Literal("{" + ",".join(COMPONENTS) + "}"),
        z_worse=sql.Literal(SCORE_LEVEL.z_worse),
        z_better=sql.Literal(SCORE_LEVEL.z_better),
        version=sql.Literal(METHOD_VERSION),
    )
    return query.as_string(None)


def column_names() -> list[str]:
    """Columns of numbers, in the order in which they are written."""
    limited = list(SCORES_WITH_LIMITS)
    limited += [component for component in COMPONENTS if component not in FACTOR_SCORES]
    return [
        *(
            *DELTAS,
            "delta_drift",
            "n_measured_metrics",
            "r_score",
            "r_score_steady",
            "sigma",
            "sigma_max",
            "s_score",
        ),
        *(f"{name}_{side}" for name in limited for side in ("low", "high")),
        *(f"{part}_design_effect" for part in behaviour_parts),
        "driver",
        *(f"{effect}_correlation" for effect in EFFECTS),
        "episode_cv",
        "episode_z",
        "episode_chance",
        *Alike._fields,
        "deferrals_are_worse",
        *(f"{one.component}_loss" for one in COMPONENT_ROWS if one.part_order),
        *(f"{name}_{part}" for name in BEHAVIOUR for part in behaviour_parts),
    ]


def _limits(limits: Intervals) -> Columns:
    """Limits and design effects by column."""
    columns: Columns = {
        "capacity_score_low": limits.capacity_score_low,
        "capacity_score_high": limits.capacity_score_high,
        "capacity_score_steady_low": limits.capacity_score_steady_low,
        "capacity_score_steady_high": limits.capacity_score_steady_high,
    }
    for index, component in enumerate(COMPONENTS):
        columns[f"{component}_low"] = limits.component_low[:, index]
        columns[f"{component}_high"] = limits.component_high[:, index]
        columns[f"{component}_design_effect"] = limits.design_effect[:, index]
    # S is a factor and its own component: the factor's limits count.
    for index, score in enumerate(FACTOR_SCORES):
        columns[f"{score}_low"] = limits.factor_low[:, index]
        columns[f"{score}_high"] = limits.factor_high[:, index]
    return columns


def _fleet_values(fleet: FleetValues, rows: Rows) -> Columns:
    """What the rows' limits take from the fleet, by column."""
    at = (rows.window, rows.as_of)
    correlations = fleet.icc[at]
    columns: Columns = {f"{effect}_correlation": correlations[:, i] for i, effect in enumerate(EFFECTS)}
    return columns | {"episode_cv": fleet.episode_cv[at]}
