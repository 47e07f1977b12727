"""Write the rows of ``int_windows`` into the temporary table that the model's query reads."""

from collections.abc import Mapping, Sequence

import numpy as np
from psycopg import sql

from ciris_scoring.marts.factors import FACTORS
from ciris_scoring.statistics.blocks import Block
from ciris_scoring.statistics.changes import PARTS as changing_components
from ciris_scoring.statistics.changes import Change
from ciris_scoring.statistics.design_effects import FleetValues
from ciris_scoring.statistics.episodes import KINDS, EventChange
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
from ciris_scoring.statistics.intervals import COMPONENTS, Intervals
from ciris_scoring.statistics.long_run import LongRun
from ciris_scoring.statistics.rate_components import PARTS, RateComponents
from ciris_scoring.statistics.reading import NUMBERED_AGENTS, Relations
from ciris_scoring.statistics.residuals import EFFECTS
from ciris_scoring.statistics.session import Numbers, Session, types_of
from ciris_scoring.statistics.setting import Setting
from ciris_scoring.statistics.windows import Columns

FACTOR_SCORES = tuple(FACTORS.values())
"""Columns of the five factors, in the order of the factors in all arrays."""
SCORES_WITH_BOUNDS = ("capacity_score", *FACTOR_SCORES, "capacity_score_steady")
"""Scores whose confidence bounds are in columns with the suffixes ``_low`` and ``_high``."""

STEADY_COLUMNS = (
    *(f"{score}_steady" for score in FACTOR_SCORES),
    "expected_q_deferral",
    "capacity_score_steady_low",
    "capacity_score_steady_high",
)
"""Columns of the steady factors, of the expected quality of deferrals, and of the bounds of the steady score."""

NAMED = {"change_component": changing_components, "episode_kind": KINDS, "interval_driver": COMPONENTS}
"""Lists of names, by column. The column is computed as a position in its list and published as the name."""


def add_agents(session: Session, block: Block, agents: Sequence[str], first_number: int) -> None:
    """Insert the agents of a block into ``ciris_agents``. Agents of different blocks have different numbers.

    :param first_number: number of the block's first agent.
    """
    session.execute(
        sql.SQL("""
        create temporary table if not exists ciris_agents (
            agent_number int8, agent_id_hash text, origin timestamptz
        ) on commit drop;
        insert into ciris_agents select agent_number + %(first)s, agent_id_hash, %(origin)s from {}
        """).format(NUMBERED_AGENTS),
        {"first": first_number, "origin": block.origin, "agents": agents},
    )


def add_rows(session: Session, first_agent: int, places: Places, columns: Columns) -> dict[str, Numbers]:
    """Insert the rows of some agents into ``ciris_windows``; NaN stands for null.

    :param first_agent: number of the agent that has index 0 in ``places``.
    :returns: types of the columns.
    """
    keys = {
        "agent_number": places.agent + first_agent,
        "as_of_number": places.as_of,
        "window_number": places.window,
    }
    session.write_numbers("ciris_windows", keys | columns)
    return types_of(columns)


def statistics_columns(
    rows: Rows,
    fleet: FleetValues,
    bounds: Intervals,
    losses: dict[str, Floats],
    rate_components: RateComponents,
) -> Columns:
    """Return drift, R, S, confidence bounds, losses and design effects of n rows, by column.

    :param losses: (n,) by loss component. An infinite loss becomes null.
    """
    correlations = fleet.icc[rows.window, rows.as_of]
    return {
        **{f"delta_{metric}": bounds.drift[:, at] for at, metric in enumerate(METRICS)},
        "delta_drift": bounds.component[:, COMPONENTS.index("delta_drift")],
        "n_measured_metrics": np.count_nonzero(~np.isnan(bounds.drift), axis=-1).astype("int64"),
        "r_score": bounds.factor[:, FACTOR_SCORES.index("r_score")],
        "sigma": bounds.sigma,
        "sigma_max": bounds.sigma_max,
        "s_score": bounds.s_score,
        **_bounds(bounds),
        **{f"{effect}_correlation": correlations[:, at] for at, effect in enumerate(EFFECTS)},
        "episode_cv": fleet.episode_cv[rows.window, rows.as_of],
        **{f"{part}_loss": np.where(np.isinf(values), np.nan, values) for part, values in losses.items()},
        **{f"rate_components_{name}": values for name, values in rate_components._asdict().items()},
    }


def long_run_columns(
    found: Sequence[LongRun], pair: Integers, window: Integers, is_scored: Booleans
) -> Columns:
    """Return the columns of the steady score.

    :param found: steady scores of pairs of an agent and an as-of, for each window.
    :param pair: (n,) position of each row in the arrays of ``found``.
    :param window: (n,) window of each row.
    :param is_scored: (n,) whether the row has a score.
    """
    values = [np.concatenate([one.factors.T, [one.q_deferral, one.low, one.high]]) for one in found]
    columns = np.stack(values)[window, :, pair]
    columns[:, -2:] = np.where(is_scored[:, None], columns[:, -2:], np.nan)
    return dict(zip(STEADY_COLUMNS, columns.T, strict=True))


def change_columns(behaviour: Change, events: EventChange, pair: Integers) -> Columns:
    """Return the columns of changes for the worse.

    :param pair: (n,) position of each row in the arrays of ``behaviour`` and ``events``.
    """
    return {
        f"{prefix}_{name}": values[pair]
        for prefix, change in (("change", behaviour), ("episode", events))
        for name, values in change._asdict().items()
    }


def windows_query(relations: Relations, setting: Setting, types: Mapping[str, Numbers]) -> str:
    """Return the query that selects the finished rows, with the columns of ``int_windows``.

    :param types: types of the columns, as returned by :func:`add_rows`.
    """

    def value(name: str, kind: Numbers) -> sql.Composed:
        column = sql.Identifier("finished", name)
        if name in NAMED:
            names = sql.Literal("{" + ",".join(NAMED[name]) + "}")
            return sql.SQL("({}::text[])[{} + 1]").format(names, column)
        if kind.type == "int8":
            return sql.SQL("{}").format(column)
        return sql.SQL(
            "nullif({}, 'NaN')" if kind.length is None else "array_replace({}, 'NaN', null)"
        ).format(column)

    columns = sql.SQL(", ").join(
        sql.SQL("{} as {}").format(value(name, kind), sql.Identifier(name)) for name, kind in types.items()
    )
    query = sql.SQL("""
        with finished as (
            select
                numbers.*, agents.agent_id_hash,
                -- The period is in hours, because adding a day depends on the session's time zone.
                agents.origin + numbers.as_of_number * {hours} * interval '1 hour' as as_of,
                ({window_days}::int4[])[numbers.window_number + 1] as window_days
            from pg_temp.ciris_windows as numbers
            inner join pg_temp.ciris_agents as agents using (agent_number)
        )

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
        from finished
        inner join {scoring_windows} as windows using (window_days)
        inner join {agents} as agents using (agent_id_hash)
        left join {agent_names} as agent_names
            on
                finished.agent_id_hash = agent_names.agent_id_hash
                and finished.as_of > agent_names.named_from
                and (agent_names.named_until is null or finished.as_of <= agent_names.named_until)
        """).format(
        columns=columns,
        window_days=sql.Literal([window.window_days for window in setting.windows]),
        hours=sql.Literal(24 // setting.periods_per_day),
        period=sql.Literal(setting.period),
        z_worse=sql.Literal(SCORE_LEVEL.z_worse),
        z_better=sql.Literal(SCORE_LEVEL.z_better),
        version=sql.Literal(METHOD_VERSION),
        scoring_windows=relations.scoring_windows,
        agents=relations.agents,
        agent_names=relations.agent_names,
    )
    return query.as_string(None)


def _bounds(bounds: Intervals) -> Columns:
    # S is a factor and a component of the same name. The bounds of the factor are published.
    both = [
        (COMPONENTS, bounds.component_low, bounds.component_high),
        (FACTOR_SCORES, bounds.factor_low, bounds.factor_high),
    ]
    return {
        "capacity_score_low": bounds.capacity_score_low,
        "capacity_score_high": bounds.capacity_score_high,
        "interval_driver": bounds.interval_driver,
        **{f"{part}_design_effect": bounds.design_effect[:, COMPONENTS.index(part)] for part in PARTS},
        **{f"{name}_low": low[:, at] for names, low, _ in both for at, name in enumerate(names)},
        **{f"{name}_high": high[:, at] for names, _, high in both for at, name in enumerate(names)},
    }
