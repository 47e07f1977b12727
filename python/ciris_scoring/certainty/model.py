"""Compute the rows of the Python model ``fct_score_certainty`` from the published scores and the sums per agent and
period.

Each block is processed in two passes over batches of agents. The first pass computes the fleet's counts, on which the
confidence bounds of every agent depend. The second pass computes the rows.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ciris_scoring.certainty.changes import behaviour_changes
from ciris_scoring.certainty.counts import COUNTED, NUMBERS, Counts, Pairs
from ciris_scoring.certainty.design_effects import (
    FleetValues,
    add_to_fleet,
    day_steps,
    design_effects,
    empty_fleet,
    fleet_values,
)
from ciris_scoring.certainty.episodes import KINDS, event_changes, excess
from ciris_scoring.certainty.events import MICROSECONDS_PER_HOUR, log_hours
from ciris_scoring.certainty.inputs import Present, Scores
from ciris_scoring.certainty.intervals import COMPONENTS, compute_intervals
from ciris_scoring.certainty.losses import losses, r_ceiling_loss
from ciris_scoring.certainty.steady import EVENT_WINDOWS, TRACE_WINDOWS, LongRun, long_run
from ciris_scoring.errors import StepError
from ciris_scoring.long_run import probability_reached, quantile
from ciris_scoring.names import FACTORS
from ciris_scoring.windows.arrays import Columns, Floats, Integers, between, ratio, running_total
from ciris_scoring.windows.reading import AGENTS, Batch, Numbers, Reader, of_agents
from ciris_scoring.windows.run import Parameters, Run
from ciris_scoring.windows.sums import UNITS, Events, Places, judged_deferrals, recoveries

FACTOR_SCORES = tuple(FACTORS.values())
"""Columns of the five factors, in the order of the factors in all arrays."""
NAMED = {"change_component": COUNTED, "episode_kind": KINDS, "interval_driver": COMPONENTS}
"""Lists of names, by column. The column is computed as a position in its list and published as the name."""
KEPT_BYTES = 300_000_000
"""Largest size, in bytes, of the sums that are kept between the two passes over a block. Other sums are read again."""
GAP_DAYS = 90
"""Days before the window with which the window's gaps in the audit numbers are compared (certainty.md §4,
"broken_chain")."""

OF_WINDOWS = {
    "agent": "agents.agent_number",
    "as_of": "extract(epoch from scores.as_of) / {seconds} - {origin}",
    "window": "array_position(%(windows)s::int4[], scores.window_days) - 1",
    "n_episodes": "windows.n_recoveries + windows.n_open_episodes",
    "open_microseconds": "windows.open_microseconds",
    "is_replay_measured": "('i_replay' <> all(scores.unmeasured_components))::int4",
    "is_s_measured": "('s_score' <> all(scores.unmeasured_components))::int4",
    "capacity_score": "coalesce(scores.capacity_score, 'NaN')",
}
"""SQL of the fields of ``Scores`` that are not columns of ``fct_capacity_scores``, or are null there."""
OF_SCORES = Numbers({name: f"({OF_WINDOWS.get(name, f'scores.{name}')})" for name in Scores._fields}, kind="float8")
"""Columns that are read with each score."""


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
    reader = Reader(connection, inputs, NUMBERS, KEPT_BYTES)
    run = reader.run
    horizon = max(
        TRACE_WINDOWS[-1], *(w.window_days + max(w.baseline_days, w.coherence_days, GAP_DAYS) for w in run.windows)
    )
    for block in reader.blocks(horizon):
        shared = empty_fleet(block.last - block.origin)
        event_days = max(EVENT_WINDOWS[-1], run.parameters.steady_days)
        for batch in reader.batches(block, event_days):
            for _, part in batch.parts():
                first = first_of_pairs(part.places)
                pairs = Pairs(part.places.agent[first], part.places.as_of[first])
                add_to_fleet(Counts.of(part.counts), part.events, pairs, shared, run.per_day)
        fleet = fleet_values(shared)
        for batch in reader.batches(block, event_days):
            scores = _read_scores(reader, batch)
            for agents, part in batch.parts():
                mine = of_agents(scores, agents)
                if not all(map(np.array_equal, part.places, mine[:3])):
                    raise StepError(
                        "The scores of this run do not belong to its sums of periods. Build both again: dbt build"
                    )
                reader.write(part, _compute_rows(part, mine, fleet, run, Settings(**settings)))
    # The key has the same expression as in the macro surrogate_key.
    return f"""
        select
            md5(concat_ws('|', agent_id_hash, extract(epoch from as_of), window_days)) as score_certainty_id,
            *, case when capacity_score_steady is null then 'too_few_traces' end as steady_missing_because
        from ({reader.written(NAMED)}) as finished
        inner join (select agent_id_hash, agent_label from {inputs["agents"]}) as agents using (agent_id_hash)
        """


def _read_scores(reader: Reader, batch: Batch) -> Scores:
    """Read the scores of the batch's agents, ordered by agent, as-of and window."""
    run, block = reader.run, batch.block
    query = f"""
        select {OF_SCORES.sql.replace("{seconds}", str(run.seconds)).replace("{origin}", str(block.origin))}
        from {reader.relations["scores"]}
        inner join {reader.relations["windows"]} as windows
            on
                scores.agent_id_hash = windows.agent_id_hash
                and scores.as_of = windows.as_of
                and scores.window_days = windows.window_days
        inner join {AGENTS} on scores.agent_id_hash = agents.agent_id_hash
        where
            scores.agent_id_hash = any(%(agents)s)
            and windows.agent_id_hash = any(%(agents)s)
            and scores.as_of between %(first)s and %(last)s
            and windows.as_of between %(first)s and %(last)s
            and scores.window_days = any(%(windows)s)
        """
    parameters = {
        "agents": batch.names,
        "windows": [window.window_days for window in run.windows],
        "first": run.time(block.first),
        "last": run.time(block.last),
    }
    rows = reader.session.read(query, parameters, OF_SCORES.length, "float8")
    rows = rows[np.lexsort(rows[:, 2::-1].T)]
    is_real = np.array([kind is Floats for kind in Scores.__annotations__.values()])
    columns = (values if real else values.astype(np.int64) for values, real in zip(rows.T, is_real, strict=True))
    return Scores(*columns)


def _compute_rows(part: Batch, scores: Scores, fleet: FleetValues, run: Run, settings: Settings) -> Columns:
    """Return the columns of the rows of some agents."""
    counts, parameters, windows, per_day = Counts.of(part.counts), run.parameters, run.windows, run.per_day
    window_days = np.array([window.window_days for window in windows])[scores.window]
    first = first_of_pairs(scores)
    pair = np.cumsum(np.isin(np.arange(len(scores.agent)), first)) - 1
    agent, as_of, n_open = scores.agent[first], scores.as_of[first], scores.n_open_episodes[first]
    steps = day_steps(counts, Pairs(agent, as_of), per_day)
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
        counts, scores, windows, present.effect[pair], present.episode_cv[pair], parameters, per_day
    )
    return {
        **bounds._asdict(),
        **{
            f"{component}_loss": np.where(np.isinf(values), np.nan, values)
            for component, values in losses(scores, parameters).items()
        },
        **_of_pairs(counts, scores, part.events, present, pair, run, settings),
        **_of_steady_days(part.events, scores, run),
        "chain_gap_z": _chain_gap_z(counts, scores, window_days, per_day),
    }


def first_of_pairs(rows: Scores | Places) -> Integers:
    """Return the position of the first row of each pair of an agent and an as-of. Rows are ordered by both."""
    agent, as_of, _ = rows[:3]
    is_first = np.append(True, (agent[1:] != agent[:-1]) | (as_of[1:] != as_of[:-1]))[: len(agent)]
    return np.flatnonzero(is_first)


def _of_pairs(
    counts: Counts,
    scores: Scores,
    events: Events,
    present: Present,
    pair: Integers,
    run: Run,
    settings: Settings,
) -> Columns:
    """Return the columns of the steady score and of changes. They are computed once per pair of an agent and an as-of,
    not once per window.

    :param pair: position in ``present`` of the pair of each row.
    """
    lengths, parameters, per_day = tuple(one.window_days for one in run.windows), run.parameters, run.per_day
    steady = long_run(counts, events, present, lengths, parameters, per_day)
    changes = {
        "change": behaviour_changes(counts, present, parameters, per_day)._asdict(),
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


def _of_steady_days(events: Events, scores: Scores, run: Run) -> Columns:
    """Return numbers and means of the episodes and judged deferrals of the last ``steady_days``, or of the window if it
    is longer."""
    shape = len(events.first_period), int(scores.as_of.max(initial=0)) + 1
    lengths = [max(run.parameters.steady_days, window.window_days) * run.per_day for window in run.windows]
    found = [judged_deferrals(events.deferrals, n, shape) | recoveries(events.episodes, n, shape) for n in lengths]
    at = scores.window, scores.agent, scores.as_of
    of = {name: np.stack([one[name] for one in found])[at] for name in found[0]}
    n_episodes, n_deferrals = of["n_recoveries"] + scores.n_open_episodes, of["n_judged_deferrals"]
    hours = (of["recovery_microseconds"] + scores.open_microseconds) / MICROSECONDS_PER_HOUR
    return {
        "n_steady_episodes": n_episodes,
        "mttr_hours_steady": ratio(hours, n_episodes),
        "n_steady_deferrals": n_deferrals,
        "q_deferral_steady": ratio(of["value_of_judged_deferrals"] / UNITS, n_deferrals, 1.0),
    }


def _chain_gap_z(counts: Counts, scores: Scores, window_days: Integers, periods_per_day: int) -> Floats:
    """Return the excess of each window's gaps per trace over those of the ``GAP_DAYS`` days before, in standard
    deviations."""
    until = scores.as_of - window_days * periods_per_day
    since = until - GAP_DAYS * periods_per_day
    n_gaps, n_traces = (
        between(running_total(one), scores.agent, since, until).astype(np.float64)
        for one in (counts.n_gaps, counts.trials[..., 0])
    )
    return excess(scores.chain_gaps.astype(np.float64), scores.n_traces.astype(np.float64), n_gaps, n_traces)
