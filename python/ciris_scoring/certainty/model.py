"""Compute the rows of the Python model ``fct_score_certainty`` from the published scores and the counts per agent and
period. Each block is processed in two passes over batches of agents. The first one computes sums of the fleet, on which
the confidence bounds of every agent depend, the second one the rows."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ciris_scoring.certainty import design_effects as effects
from ciris_scoring.certainty.changes import behaviour_changes
from ciris_scoring.certainty.events import KINDS, MICROSECONDS_PER_HOUR, event_changes, excess, log_hours
from ciris_scoring.certainty.inputs import COUNTED, NUMBERS, VALUES, Counts, Pairs, Present, Scores
from ciris_scoring.certainty.intervals import COMPONENTS, compute_intervals
from ciris_scoring.certainty.losses import losses, r_ceiling_loss
from ciris_scoring.certainty.steady import EVENT_WINDOWS, TRACE_WINDOWS, LongRun, long_run
from ciris_scoring.errors import StepError
from ciris_scoring.long_run import NORMAL_TO_95, probability_reached, quantile
from ciris_scoring.names import FACTORS
from ciris_scoring.windows.arrays import Columns, Floats, between, ratio, running_total
from ciris_scoring.windows.reading import AGENTS, Batch, Numbers, Reader, of_agents
from ciris_scoring.windows.run import Run
from ciris_scoring.windows.sums import UNITS, Events, judged_deferrals, recoveries

Settings = Mapping[str, float]
NAMED = {"change_component": COUNTED, "episode_kind": KINDS, "interval_driver": COMPONENTS}
"""Lists of names, by column. The column is computed as a position in its list and published as the name."""
KEPT_BYTES = 300_000_000
"""Largest size of the counts that are kept between the two passes over a block. Others are read again."""
GAP_DAYS = 90
"""Days before the window with which its gaps are compared (certainty.md §4, "broken_chain")."""
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
SINGLE = Scores._fields[:-1]
OF_SCORES = Numbers(
    {name: f"({OF_WINDOWS.get(name, f'scores.{name}')})" for name in SINGLE},
    {"values": (f"array[{', '.join(f'scores.{name}' for name in VALUES)}]", len(VALUES))},
    kind="float8",
)
"""Columns that are read with each score."""


def compute_certainty(connection: Any, inputs: Mapping[str, str], settings: Settings) -> str:
    """Compute the rows of ``fct_score_certainty`` that the run rewrites, and return the query that selects them.

    :param connection: dbt's connection, inside the transaction of the materialization.
    :param inputs: names of relations. ``scores`` has the scores of the run, with the alias ``scores``.
    :raises StepError: a sum is null or has the wrong length, or the scores do not belong to the sums.
    """
    reader = Reader(connection, inputs, NUMBERS, KEPT_BYTES)
    run = reader.run
    horizons = (w.window_days + max(w.baseline_days, w.coherence_days, GAP_DAYS) for w in run.windows)
    event_days = max(EVENT_WINDOWS[-1], run.parameters.steady_days)
    for block in reader.blocks(max(TRACE_WINDOWS[-1], *horizons)):
        shared = effects.empty_fleet(block.last - block.origin)
        for batch in reader.batches(block, event_days):
            for _, part in batch.parts():
                pairs, _, _ = Pairs.of(part.places.agent, part.places.as_of)
                effects.add_to_fleet(Counts.of(part.counts), part.events, pairs, shared, run.per_day)
        fleet = effects.fleet_values(shared)
        for batch in reader.batches(block, event_days):
            scores = _read_scores(reader, batch)
            for agents, part in batch.parts():
                mine = of_agents(scores, agents)
                if not all(map(np.array_equal, part.places, mine[:3])):
                    raise StepError(
                        "The scores of this run do not belong to its sums of periods. Build both again: dbt build"
                    )
                reader.write(part, _compute_rows(part, mine, fleet, run, settings))
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
        inner join {reader.relations["windows"]} as windows using (agent_id_hash, as_of, window_days)
        inner join {AGENTS} using (agent_id_hash)
        where
            scores.agent_id_hash = any(%(agents)s)
            and windows.agent_id_hash = any(%(agents)s)
            and scores.as_of between %(first)s and %(last)s
            and windows.as_of between %(first)s and %(last)s
            and scores.window_days = any(%(windows)s)
        """
    times = {"first": run.time(block.first), "last": run.time(block.last)}
    parameters = times | {"agents": batch.names, "windows": [window.window_days for window in run.windows]}
    rows = reader.session.read(query, parameters, OF_SCORES.length, "float8")
    rows = rows[np.lexsort(rows[:, 2::-1].T)]
    real = ("capacity_score", "values")
    kinds = {name: np.float64 if name in real else np.int64 for name in Scores._fields}
    return Scores._make(OF_SCORES.of(rows, name).astype(kind) for name, kind in kinds.items())


def _compute_rows(part: Batch, scores: Scores, fleet: effects.FleetValues, run: Run, settings: Settings) -> Columns:
    """Return the columns of the rows of some agents. Steady score and changes are computed once for all windows."""
    counts, parameters, windows, per_day = Counts.of(part.counts), run.parameters, run.windows, run.per_day
    pairs, first, pair = Pairs.of(scores.agent, scores.as_of)
    n_open = scores.n_open_episodes[first]
    steps = effects.day_steps(counts, pairs, per_day)
    present = Present(
        pairs,
        n_open=n_open,
        open_log_hours=np.where(n_open > 0, log_hours(scores.open_microseconds[first]), 0.0),
        effect=effects.design_effects(steps, fleet.correlation[pairs.as_of]),
        per_day=steps.per_day,
        episode_cv=fleet.episode_cv[pairs.as_of],
    )
    effect, episode_cv = present.effect[pair], present.episode_cv[pair]
    days = tuple(window.window_days for window in windows)
    by_window = long_run(counts, part.events, present, days, parameters, per_day)
    steady = LongRun(*(np.stack(values)[scores.window, pair] for values in zip(*by_window, strict=True)))
    changes = {
        "change": behaviour_changes(counts, present, parameters, per_day)._asdict(),
        "episode": event_changes(part.events, present, per_day)._asdict(),
    }
    return {
        **compute_intervals(counts, scores, windows, effect, episode_cv, parameters, per_day)._asdict(),
        **{f"{name}_loss": np.where(np.isinf(loss), np.nan, loss) for name, loss in losses(scores, parameters).items()},
        **_of_steady(steady, scores, r_ceiling_loss(parameters), settings),
        **{f"{prefix}_{name}": values[pair] for prefix, change in changes.items() for name, values in change.items()},
        **_of_steady_days(part.events, scores, run),
        "chain_gap_z": _chain_gap_z(counts, scores, run),
    }


def _of_steady(steady: LongRun, scores: Scores, fixed_loss: float, settings: Settings) -> Columns:
    """Return the columns of the steady score (certainty.md §4b). All but the factors are null without a score."""
    at = {
        **{"capacity_score_steady": 0.0, "capacity_score_steady_low": NORMAL_TO_95},
        **{"capacity_score_steady_high": -NORMAL_TO_95, "grant_score": quantile(settings["grant_probability"])},
        "withhold_score": quantile(settings["withhold_probability"]),
    }
    of_score: Columns = {name: steady.at(z, fixed_loss) for name, z in at.items()}
    score, threshold = of_score["capacity_score_steady"], settings["verdict_threshold"]
    of_score["probability_at_threshold"] = probability_reached(threshold, score, steady.log_sd, fixed_loss)
    of_score["capacity_score_steady_log_sd"] = steady.log_sd
    return {
        **{f"{score}_steady": values for score, values in zip(FACTORS.values(), steady.factors.T, strict=True)},
        **{name: np.where(np.isnan(scores.capacity_score), np.nan, values) for name, values in of_score.items()},
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


def _chain_gap_z(counts: Counts, scores: Scores, run: Run) -> Floats:
    """Return the excess of each window's gaps per trace over those of ``GAP_DAYS`` before, in standard deviations."""
    days = np.array([window.window_days for window in run.windows])[scores.window]
    until, since = (scores.as_of - back * run.per_day for back in (days, days + GAP_DAYS))
    before = (
        between(running_total(one), scores.agent, since, until).astype(np.float64)
        for one in (counts.n_gaps, counts.trials[..., 0])
    )
    return excess(scores.chain_gaps.astype(np.float64), scores.n_traces.astype(np.float64), *before)
