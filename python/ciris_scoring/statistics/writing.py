"""Write the rows of ``int_windows`` into the temporary table that the model's query reads."""

from collections.abc import Sequence

import numpy as np
from psycopg import sql

from ciris_scoring.basics.components import COMPONENT_ROWS
from ciris_scoring.basics.statements import column_list
from ciris_scoring.statistics.blocks import Block
from ciris_scoring.statistics.changes import PARTS as changing_components
from ciris_scoring.statistics.changes import Change
from ciris_scoring.statistics.design_effects import FleetValues
from ciris_scoring.statistics.episodes import KINDS, EventChange
from ciris_scoring.statistics.fixed_copy import write_numbers
from ciris_scoring.statistics.inputs import (
    METHOD_VERSION,
    METRICS,
    SCORE_LEVEL,
    Booleans,
    Floats,
    Integers,
    Places,
    Rows,
)
from ciris_scoring.statistics.intervals import COMPONENTS, FACTORS, Intervals
from ciris_scoring.statistics.long_run import LongRun
from ciris_scoring.statistics.rate_components import PARTS as rate_components_parts
from ciris_scoring.statistics.rate_components import RateComponents
from ciris_scoring.statistics.reading import NUMBERED_AGENTS, Relations
from ciris_scoring.statistics.residuals import EFFECTS
from ciris_scoring.statistics.session import Session
from ciris_scoring.statistics.setting import Setting
from ciris_scoring.statistics.ties import Ties
from ciris_scoring.statistics.windows import (
    COUNT_ARRAYS,
    COUNTS,
    REAL_SUMS,
    Columns,
)

FACTOR_SCORES = ("c_score", "i_int_score", "r_score", "i_inc_score", "s_score")
"""Columns of the factors, in the order of ``FACTORS``."""
SCORES_WITH_BOUNDS = ("capacity_score", *FACTOR_SCORES, "capacity_score_steady")
"""Scores with confidence bounds, in the columns COLUMN_low and COLUMN_high."""

STEADY_COLUMNS = (
    *(f"{score}_steady" for score in FACTOR_SCORES),
    "expected_q_deferral",
)
"""Columns of the steady score but its bounds."""
STEADY_BOUNDS = ("capacity_score_steady_low", "capacity_score_steady_high")
CHANGE = tuple(f"change_{name}" for name in Change._fields)
EVENT_CHANGE = tuple(f"episode_{name}" for name in EventChange._fields)

DELTAS = tuple(f"delta_{metric}" for metric in METRICS)
RATE_COMPONENTS = tuple(f"rate_components_{name}" for name in RateComponents._fields)

NAMED = {"change_component": changing_components, "episode_kind": KINDS, "driver": COMPONENTS}
"""Columns of positions in these lists."""
INTEGERS = {
    *COUNTS,
    *COUNT_ARRAYS,
    "n_measured_metrics",
    "change_days",
    "episode_days",
    *NAMED,
    *Ties._fields,
}
ARRAYS = {*COUNT_ARRAYS}


def create_tables(session: Session) -> None:
    """Create the temporary tables: one for the numbers of a block, with agents as numbers, and one for all finished
    rows."""
    numbers = sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(type_of(name))) for name in column_names()
    )
    session.execute(
        sql.SQL("""
        create temporary table ciris_numbers (
            agent_number int8, as_of_number int8, window_number int8, {numbers}
        ) on commit drop;
        create temporary table ciris_windows (
            agent_id_hash text, as_of timestamptz, window_days int4, {numbers}
        ) on commit drop
        """).format(numbers=numbers)
    )


def type_of(name: str) -> str:
    """Return the type of a column in the temporary tables."""
    number = "int8" if name in INTEGERS else "float8"
    return f"{number}[]" if name in ARRAYS else number


def add_rows(session: Session, first_agent: int, places: Places, columns: Columns) -> None:
    """Insert the rows of some agents into ``ciris_numbers``; NaN stands for null.

    :param first_agent: number of the agent that has index 0 in ``places``.
    """
    keys = {
        "agent_number": places.agent + first_agent,
        "as_of_number": places.as_of,
        "window_number": places.window,
    }
    write_numbers(session, "ciris_numbers", keys | {name: columns[name] for name in column_names()})


def statistics_columns(
    rows: Rows,
    fleet: FleetValues,
    bounds: Intervals,
    losses: dict[str, Floats],
    rate_components: RateComponents,
) -> Columns:
    """Return drift, R, S, confidence bounds, losses and design effects of n rows, by column.

    :param losses: by loss component.
    """
    return {
        **dict(zip(DELTAS, bounds.drift.T, strict=True)),
        "delta_drift": bounds.component[:, COMPONENTS.index("delta_drift")],
        "n_measured_metrics": np.count_nonzero(~np.isnan(bounds.drift), axis=-1).astype("int64"),
        "r_score": bounds.factor[:, FACTORS.index("R")],
        "sigma": bounds.sigma,
        "sigma_max": bounds.sigma_max,
        "s_score": bounds.s_score,
        **_bounds(bounds),
        "driver": bounds.interval_driver,
        **_fleet_values(fleet, rows),
        **{f"{part}_loss": np.where(np.isinf(values), np.nan, values) for part, values in losses.items()},
        **{
            f"{name}_{part}": values[:, at]
            for name, values in zip(RATE_COMPONENTS, rate_components, strict=True)
            for at, part in enumerate(rate_components_parts)
        },
    }


def long_run_columns(
    found: Sequence[LongRun], pair: Integers, window: Integers, is_scored: Booleans
) -> Columns:
    """Return the columns of the steady score.

    :param found: for each window.
    :param pair: (n,) position in ``found`` of each row.
    :param window: (n,) window of each row.
    :param is_scored: (n,) whether the row has a score.
    """
    values = [np.concatenate([one.factors.T, [one.q_deferral, one.low, one.high]]) for one in found]
    columns = np.stack(values)[window, :, pair]
    columns[:, -2:] = np.where(is_scored[:, None], columns[:, -2:], np.nan)
    return dict(zip((*STEADY_COLUMNS, *STEADY_BOUNDS), columns.T, strict=True))


def change_columns(behaviour: Change, events: EventChange, pair: Integers) -> Columns:
    """Return the columns of changes for the worse.

    :param pair: (n,) position of each row in the arrays of both.
    """
    columns = zip((*CHANGE, *EVENT_CHANGE), (*behaviour, *events), strict=True)
    return {name: values[pair] for name, values in columns}


def finish_block(session: Session, setting: Setting, block: Block, agents: Sequence[str]) -> None:
    """Move the rows of ``ciris_numbers`` into ``ciris_windows``, with agents, as-ofs and windows in place of
    numbers."""
    session.execute(
        sql.SQL("""
        insert into ciris_windows
        select
            agents.agent_id_hash,
            %(origin)s + numbers.as_of_number * %(hours)s * interval '1 hour',
            (%(window_days)s::int4[])[numbers.window_number + 1],
            {names}
        from ciris_numbers as numbers
        inner join {agents} using (agent_number);
        truncate ciris_numbers
        """).format(names=column_list(column_names()), agents=NUMBERED_AGENTS),
        {
            "origin": block.origin,
            # The period is in hours, because adding a day depends on the session's time zone.
            "hours": 24 // setting.periods_per_day,
            "agents": agents,
            "window_days": [window.window_days for window in setting.windows],
        },
    )


def windows_query(relations: Relations, setting: Setting) -> str:
    """Return the query that selects the finished rows, with the columns of ``int_windows``."""

    def value(name: str) -> sql.Composed:
        column = sql.Identifier("finished", name)
        if name in INTEGERS or name in ARRAYS:
            return sql.SQL("{} as {}").format(column, sql.Identifier(name))
        return sql.SQL("nullif({}, 'NaN') as {}").format(column, sql.Identifier(name))

    parts = {f"{name}_{part}" for name in RATE_COMPONENTS for part in rate_components_parts}
    columns = [
        *(value(name) for name in column_names() if name not in parts | {*NAMED}),
        *(
            sql.SQL("({}::text[])[{} + 1] as {}").format(
                sql.Literal("{" + ",".join(values) + "}"),
                sql.Identifier("finished", name),
                sql.Identifier("interval_driver" if name == "driver" else name),
            )
            for name, values in NAMED.items()
        ),
        *(
            sql.SQL("array[{}] as {}").format(
                sql.SQL(", ").join(
                    sql.SQL("nullif({}, 'NaN')").format(sql.Identifier("finished", f"{name}_{part}"))
                    for part in rate_components_parts
                ),
                sql.Identifier(name),
            )
            for name in RATE_COMPONENTS
        ),
    ]
    query = sql.SQL("""
        select
            finished.agent_id_hash, agent_names.agent_name, agents.first_traced_at, finished.as_of,
            finished.window_days,
            finished.as_of - windows.window_days * interval '24 hours' as window_start,
            finished.as_of - (windows.window_days + windows.baseline_days) * interval '24 hours' as baseline_start,
            extract(
                epoch from finished.as_of - windows.window_days * interval '24 hours' - greatest(
                    finished.as_of - (windows.window_days + windows.baseline_days) * interval '24 hours',
                    date_bin({period}, agents.first_traced_at, timestamptz '2000-01-01 00:00:00+00')
                )
            ) / 86400 as baseline_days,
            windows.coherence_days, {columns},
            {z_worse}::float8 as z_worse, {z_better}::float8 as z_better, {version} as method_version,
            now() as computed_at
        from pg_temp.ciris_windows as finished
        inner join {scoring_windows} as windows using (window_days)
        inner join {agents} as agents using (agent_id_hash)
        left join {agent_names} as agent_names
            on
                finished.agent_id_hash = agent_names.agent_id_hash
                and finished.as_of > agent_names.named_from
                and (agent_names.named_until is null or finished.as_of <= agent_names.named_until)
        """).format(
        columns=sql.SQL(", ").join(columns),
        period=sql.Literal(setting.period),
        z_worse=sql.Literal(SCORE_LEVEL.z_worse),
        z_better=sql.Literal(SCORE_LEVEL.z_better),
        version=sql.Literal(METHOD_VERSION),
        scoring_windows=relations.scoring_windows,
        agents=relations.agents,
        agent_names=relations.agent_names,
    )
    return query.as_string(None)


def column_names() -> list[str]:
    """Return the columns of numbers in their order."""
    limited = list(SCORES_WITH_BOUNDS)
    limited += [component for component in COMPONENTS if component not in FACTOR_SCORES]
    return [
        *(*COUNTS, *COUNT_ARRAYS, *REAL_SUMS),
        *(
            *DELTAS,
            "delta_drift",
            "n_measured_metrics",
            "r_score",
            *STEADY_COLUMNS,
            "sigma",
            "sigma_max",
            "s_score",
        ),
        *(f"{name}_{side}" for name in limited for side in ("low", "high")),
        *(f"{part}_design_effect" for part in rate_components_parts),
        "driver",
        *(f"{effect}_correlation" for effect in EFFECTS),
        "episode_cv",
        "chain_gap_z",
        *(*CHANGE, *EVENT_CHANGE),
        *Ties._fields,
        *(f"{one.component}_loss" for one in COMPONENT_ROWS if one.loss_order),
        *(f"{name}_{part}" for name in RATE_COMPONENTS for part in rate_components_parts),
    ]


def _bounds(bounds: Intervals) -> Columns:
    columns: Columns = {
        "capacity_score_low": bounds.capacity_score_low,
        "capacity_score_high": bounds.capacity_score_high,
    }
    for index, component in enumerate(COMPONENTS):
        columns[f"{component}_low"] = bounds.component_low[:, index]
        columns[f"{component}_high"] = bounds.component_high[:, index]
        columns[f"{component}_design_effect"] = bounds.design_effect[:, index]
    # S is a factor and a component of the same name. The bounds of the factor are published.
    for index, score in enumerate(FACTOR_SCORES):
        columns[f"{score}_low"] = bounds.factor_low[:, index]
        columns[f"{score}_high"] = bounds.factor_high[:, index]
    return columns


def _fleet_values(fleet: FleetValues, rows: Rows) -> Columns:
    at = (rows.window, rows.as_of)
    correlations = fleet.icc[at]
    columns: Columns = {f"{effect}_correlation": correlations[:, i] for i, effect in enumerate(EFFECTS)}
    return columns | {"episode_cv": fleet.episode_cv[at]}
