"""What is written: the statistics of a block's rows, into the temporary table that the model's query reads."""

from collections.abc import Mapping

from psycopg import sql

from ciris_scoring.basics.statements import column_list
from ciris_scoring.steps.alike import Alike
from ciris_scoring.steps.fixed_copy import write_numbers
from ciris_scoring.steps.intervals import (
    COMPONENTS,
    METHOD_VERSION,
    SCORE_LEVEL,
    FleetValues,
    Intervals,
    Rows,
)
from ciris_scoring.steps.intervals.inputs import METRICS, Floats, Integers
from ciris_scoring.steps.intervals.residuals import EFFECTS
from ciris_scoring.steps.resilience import Drift
from ciris_scoring.steps.session import Session

KEY = ("agent_id_hash", "as_of", "window_days")
FACTOR_SCORES = ("c_score", "i_int_score", "r_score", "i_inc_score", "s_score")
"""The columns of the factors, in the order of ``FACTORS``."""

DELTAS = tuple(f"delta_{metric}" for metric in METRICS)
WITHOUT_DESIGN_EFFECT = ("mttr_hours", "q_deferral")
INTEGERS = ("n_measured_metrics", "driver", *Alike._fields)

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
    drift: Drift,
    r_score: Floats,
    limits: Intervals,
    fleet: FleetValues,
    episodes: Mapping[str, Floats],
    shared: Alike,
) -> None:
    """Put the statistics of a chunk's rows into ``ciris_numbers``; NaN for null."""
    columns: Columns = {
        **dict(zip(DELTAS, drift.per_metric.T, strict=True)),
        "delta_drift": drift.mean,
        "n_measured_metrics": drift.n_measured.astype("int64"),
        "r_score": r_score,
        "r_score_steady": limits.r_score_steady,
        **_limits(limits),
        "driver": limits.interval_driver,
        **_fleet_values(fleet, rows),
        **episodes,
        **shared._asdict(),
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
    values = sql.SQL(", ").join(
        sql.SQL("nullif({0}, 'NaN') as {0}").format(sql.Identifier(name))
        for name in column_names()
        if name not in INTEGERS
    )
    query = sql.SQL("""
        select
            {key}, inputs_digest, n_measured_metrics, {values}, {shared},
            ({components}::text[])[driver + 1] as interval_driver,
            {z_worse}::float8 as z_worse, {z_better}::float8 as z_better, {version} as method_version,
            now() as computed_at
        from pg_temp.ciris_statistics
        """).format(
        key=column_list(KEY),
        values=values,
        shared=column_list(Alike._fields),
        components=sql.Literal("{" + ",".join(COMPONENTS) + "}"),
        z_worse=sql.Literal(SCORE_LEVEL.z_worse),
        z_better=sql.Literal(SCORE_LEVEL.z_better),
        version=sql.Literal(METHOD_VERSION),
    )
    return query.as_string(None)


def column_names() -> list[str]:
    """Columns of numbers, in the order in which they are written."""
    limited = ["capacity_score", *FACTOR_SCORES, "capacity_score_steady"]
    limited += [component for component in COMPONENTS if component not in FACTOR_SCORES]
    return [
        *(*DELTAS, "delta_drift", "n_measured_metrics", "r_score", "r_score_steady"),
        *(f"{name}_{side}" for name in limited for side in ("low", "high")),
        *(f"{name}_design_effect" for name in COMPONENTS if name not in WITHOUT_DESIGN_EFFECT),
        "driver",
        *(f"{effect}_correlation" for effect in EFFECTS),
        "episode_cv",
        "episode_z",
        "episode_chance",
        *Alike._fields,
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
