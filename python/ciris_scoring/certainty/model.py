"""Compute the rows of the Python model ``fct_score_certainty`` from the published scores and the sums per agent and
period.

Each block is processed in two passes over batches of agents. The first pass computes the fleet's sums, on which the
confidence bounds of every agent depend. The second pass computes the rows.
"""

from collections.abc import Mapping
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
from psycopg import sql

from ciris_scoring.certainty.changes import behaviour_changes
from ciris_scoring.certainty.counts import COUNTED
from ciris_scoring.certainty.design_effects import (
    FleetValues,
    day_steps,
    design_effects,
    empty_fleet_sums,
    fleet_values,
    sum_fleet,
)
from ciris_scoring.certainty.episodes import KINDS, event_changes, excess
from ciris_scoring.certainty.inputs import Scores
from ciris_scoring.certainty.intervals import COMPONENTS, compute_intervals
from ciris_scoring.certainty.losses import losses, r_ceiling_loss
from ciris_scoring.certainty.steady import EVENT_WINDOWS, LongRun, Present, long_run
from ciris_scoring.errors import StepError
from ciris_scoring.long_run import probability_reached, quantile
from ciris_scoring.names import FACTORS
from ciris_scoring.windows.inputs import Columns, Floats, Integers, Parameters, PeriodSums, Places, Window
from ciris_scoring.windows.reading import NUMBERED_AGENTS, Batch, BlockReader, readers
from ciris_scoring.windows.rolling import between, running_total
from ciris_scoring.windows.session import Numbers
from ciris_scoring.windows.setting import Setting
from ciris_scoring.windows.sums import Events, log_hours
from ciris_scoring.windows.writing import add_agents, add_rows, finished_rows, values_of

FACTOR_SCORES = tuple(FACTORS.values())
"""Columns of the five factors, in the order of the factors in all arrays."""
NAMED = {"change_component": COUNTED, "episode_kind": KINDS, "interval_driver": COMPONENTS}
"""Lists of names, by column. The column is computed as a position in its list and published as the name."""
KEPT_BYTES = 250_000_000
"""Largest size, in bytes, of the sums that are kept between the two passes over a block. The sums of 10,000 agents over
134 days take about 215 MB."""
GAP_DAYS = 90
"""Days before the window with which the window's gaps in the audit numbers are compared (certainty.md §4,
"broken_chain")."""

OF_SCORES = {name: Numbers("float8") for name in Scores._fields[Scores._fields.index("d_identity") :]} | {
    name: Numbers("int8")
    for name in Scores._fields[Scores._fields.index("n_traces") : Scores._fields.index("d_identity")]
}
"""Columns that are read with each score."""
EXPRESSIONS = {
    "n_episodes": "windows.n_recoveries + windows.n_open_episodes",
    "open_microseconds": "windows.open_microseconds",
    "is_replay_measured": "('i_replay' <> all(scores.unmeasured_components))::int4",
    "is_s_measured": "('s_score' <> all(scores.unmeasured_components))::int4",
    "n_steady_episodes": "windows.steady_n_recoveries + windows.n_open_episodes",
    "mttr_hours_steady": """coalesce(
        (windows.steady_recovery_microseconds + windows.open_microseconds)::numeric
        / nullif(windows.steady_n_recoveries + windows.n_open_episodes, 0) / 3600000000, 0
    )""",
    "n_steady_deferrals": "windows.n_steady_deferrals",
    "q_deferral_steady": "coalesce(windows.value_of_steady_deferrals / nullif(windows.n_steady_deferrals, 0), 1)",
    "capacity_score": "coalesce(scores.capacity_score, 'NaN')",
}
"""SQL of the columns that are not columns of ``fct_capacity_scores``, or are null there."""
OF_STEADY_DAYS = ("n_steady_episodes", "mttr_hours_steady", "n_steady_deferrals", "q_deferral_steady")
"""Columns that are read with each score and published."""


class Settings(NamedTuple):
    """Variables of the project that the verdict depends on."""

    verdict_threshold: float
    grant_probability: float
    withhold_probability: float


def compute_certainty(connection: Any, inputs: Mapping[str, str], settings: Mapping[str, Any]) -> str:
    """Compute the rows of ``fct_score_certainty`` that the run rewrites.

    :param connection: dbt's connection, inside the transaction of the materialization.
    :param inputs: names of relations. ``scores`` has the scores of the run, with the alias ``scores``.
    :param settings: values by the fields of :class:`Settings`.
    :returns: the query that selects the computed rows.
    :raises StepError: a parameter is missing, a sum is null or has the wrong length, or the scores do not belong to the
        sums.
    """
    types = dict[str, Numbers]()
    setting, blocks = readers(connection, inputs, event_days=EVENT_WINDOWS[-1], kept_bytes=KEPT_BYTES)
    for reader in blocks:
        add_agents(reader)
        shared = empty_fleet_sums(reader.block.n_periods(setting))
        for chunk in reader.sums():
            agent, as_of, _ = (values[first_of_pairs(chunk.places)] for values in chunk.places)
            sum_fleet(chunk.sums, agent, as_of, shared, setting.periods_per_day)
        fleet = fleet_values(shared)
        for agents, chunk, scores in reader.chunks(partial(_read_scores, reader)):
            if not all(map(np.array_equal, chunk.places, scores[:3])):
                raise StepError(
                    "The scores of this run do not belong to its sums of periods. Build both again: dbt build"
                )
            columns = _compute_rows(chunk, scores, reader.events(agents), fleet, reader, Settings(**settings))
            types = add_rows(reader, agents, chunk.places, columns)
    return _query(setting, types)


def _read_scores(reader: BlockReader, agents: range) -> Scores:
    """Read the scores of a range of the block's agents, ordered by agent, as-of and window."""
    setting, read = reader.setting, reader.agents[agents.start : agents.stop]
    query = sql.SQL("""
        select
            agents.agent_number,
            (extract(epoch from scores.as_of - %(origin)s) / %(period)s)::int8,
            array_position(%(windows)s::int4[], scores.window_days)::int8 - 1,
            {columns}
        from {scores}
        inner join {windows} as windows
            on
                scores.agent_id_hash = windows.agent_id_hash
                and scores.as_of = windows.as_of
                and scores.window_days = windows.window_days
        inner join {agents} on scores.agent_id_hash = agents.agent_id_hash
        where
            scores.agent_id_hash = any(%(agents)s)
            and windows.agent_id_hash = any(%(agents)s)
            and scores.as_of between %(first)s and %(last)s
            and windows.as_of between %(first)s and %(last)s
            and scores.window_days = any(%(windows)s)
        """).format(
        columns=sql.SQL(", ").join(
            kind.cast(sql.SQL("({})").format(sql.SQL(EXPRESSIONS.get(name, f"scores.{name}"))))
            for name, kind in OF_SCORES.items()
        ),
        agents=NUMBERED_AGENTS,
        scores=reader.relations["scores"],
        windows=reader.relations["windows"],
    )
    block = reader.block
    parameters = {
        "agents": read,
        "windows": [window.window_days for window in setting.windows],
        "origin": block.origin,
        "period": setting.period.total_seconds(),
        "first": block.first,
        "last": block.last,
    }
    keys = dict.fromkeys(("agent", "as_of", "window"), Numbers("int8"))
    found = reader.session.read_numbers(query, parameters, keys | OF_SCORES)
    places = dict(islice(found, len(keys)))
    order = np.lexsort((places["window"], places["as_of"], places["agent"]))
    return Scores(**{name: values[order] for name, values in chain(places.items(), found)})


def _compute_rows(
    chunk: Batch, scores: Scores, events: Events, fleet: FleetValues, reader: BlockReader, settings: Settings
) -> Columns:
    """Return the columns of the rows of a chunk of agents."""
    parameters, windows, per_day = (
        reader.setting.parameters,
        reader.setting.windows,
        reader.setting.periods_per_day,
    )
    window_days = np.array([window.window_days for window in windows])[scores.window]
    first = first_of_pairs(scores)
    pair = np.cumsum(np.isin(np.arange(len(scores.agent)), first)) - 1
    agent, as_of, n_open = scores.agent[first], scores.as_of[first], scores.n_open_episodes[first]
    steps = day_steps(chunk.sums, agent, as_of, per_day)
    present = Present(
        agent=agent,
        as_of=as_of,
        n_open=n_open,
        open_log_hours=np.where(n_open > 0, log_hours(scores.open_microseconds[first]), 0.0),
        effect=design_effects(steps, fleet.correlation[as_of]),
        per_day=steps.per_day,
        episode_cv=fleet.episode_cv[as_of],
    )
    bounds = compute_intervals(
        chunk.sums, scores, windows, present.effect[pair], present.episode_cv[pair], parameters, per_day
    )
    return {
        **bounds._asdict(),
        **{
            f"{component}_loss": np.where(np.isinf(values), np.nan, values)
            for component, values in losses(scores, parameters).items()
        },
        **_of_pairs(chunk.sums, scores, events, present, pair, windows, parameters, settings, per_day),
        **{name: getattr(scores, name) for name in OF_STEADY_DAYS},
        "chain_gap_z": _chain_gap_z(chunk.sums, scores, window_days, per_day),
    }


def first_of_pairs(rows: Scores | Places) -> Integers:
    """Return the position of the first row of each pair of an agent and an as-of. Rows are ordered by both."""
    agent, as_of, _ = rows[:3]
    is_first = np.append(True, (agent[1:] != agent[:-1]) | (as_of[1:] != as_of[:-1]))[: len(agent)]
    return np.flatnonzero(is_first)


def _of_pairs(
    sums: PeriodSums,
    scores: Scores,
    events: Events,
    present: Present,
    pair: Integers,
    windows: tuple[Window, ...],
    parameters: Parameters,
    settings: Settings,
    per_day: int,
) -> Columns:
    """Return the columns of the steady score and of changes. They are computed once per pair of an agent and an as-of,
    not once per window.

    :param pair: position in ``present`` of the pair of each row.
    """
    lengths = tuple(one.window_days for one in windows)
    steady = long_run(sums, events, present, lengths, parameters, per_day)
    changes = {
        "change": behaviour_changes(sums, present, parameters, per_day)._asdict(),
        "episode": event_changes(events, present, per_day)._asdict(),
    }
    return {
        **_steady_columns(_of_rows(steady, scores.window, pair), scores, parameters, settings),
        **{f"{prefix}_{name}": values[pair] for prefix, change in changes.items() for name, values in change.items()},
    }


def _of_rows(steady: list[LongRun], window: Integers, pair: Integers) -> LongRun:
    """Return the steady score of each row, from those of each window and pair."""
    return LongRun(*(np.stack(values)[window, pair] for values in zip(*steady, strict=True)))


def _steady_columns(steady: LongRun, scores: Scores, parameters: Parameters, settings: Settings) -> Columns:
    """Return the columns of the steady score (certainty.md §4b). All but the factors are null without a score."""
    is_scored = ~np.isnan(scores.capacity_score)
    fixed_loss = r_ceiling_loss(parameters)

    def reached(probability: float) -> Floats:
        return steady.at(quantile(probability), fixed_loss)

    of_score: Columns = {
        "capacity_score_steady": steady.score,
        "capacity_score_steady_low": steady.low,
        "capacity_score_steady_high": steady.high,
        "capacity_score_steady_log_sd": steady.log_sd,
        "probability_at_threshold": probability_reached(
            settings.verdict_threshold, steady.score, steady.log_sd, fixed_loss
        ),
        "grant_score": reached(settings.grant_probability),
        "withhold_score": reached(settings.withhold_probability),
    }
    return {
        **{f"{score}_steady": values for score, values in zip(FACTOR_SCORES, steady.factors.T, strict=True)},
        **{name: np.where(is_scored, values, np.nan) for name, values in of_score.items()},
    }


def _chain_gap_z(sums: PeriodSums, scores: Scores, window_days: Integers, periods_per_day: int) -> Floats:
    """Return the excess of each window's gaps per trace over those of the ``GAP_DAYS`` days before, in standard
    deviations."""
    until = scores.as_of - window_days * periods_per_day
    since = until - GAP_DAYS * periods_per_day
    n_gaps, n_traces = (
        between(running_total(counts), scores.agent, since, until).astype(np.float64)
        for counts in (sums.n_chain_gaps, sums.n_traces)
    )
    return excess(scores.chain_gaps.astype(np.float64), scores.n_traces.astype(np.float64), n_gaps, n_traces)


def _query(setting: Setting, types: Mapping[str, Numbers]) -> str:
    """Return the query that selects the finished rows, with the columns of ``fct_score_certainty``.

    :param types: types of the columns, as returned by :func:`add_rows`.
    """
    # The key has the same expression as in the macro surrogate_key.
    query = sql.SQL("""
        with finished as ({finished})

        select
            md5(concat_ws('|', finished.agent_id_hash, extract(epoch from finished.as_of), finished.window_days))
                as score_certainty_id,
            finished.agent_id_hash, finished.as_of, finished.window_days, {columns},
            case when finished.capacity_score_steady = 'NaN' then 'too_few_traces' end as steady_missing_because
        from finished
        """).format(
        finished=finished_rows(setting),
        columns=values_of(types, NAMED),
    )
    return query.as_string(None)
