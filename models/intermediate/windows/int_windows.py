"""Sums and counts of every scored window, and KL drift, in numpy (scoring.md §3 to §7)."""

from typing import Any

import numpy as np

from ciris_scoring.windows import sums
from ciris_scoring.windows.arrays import Columns, between, running_total
from ciris_scoring.windows.drift import METRICS, N_BINS, drift
from ciris_scoring.windows.reading import Batch, Numbers, Reader
from ciris_scoring.windows.run import Run

COUNTS = (
    *("n_traces", "n_identity_changes", "n_overridden", "n_conscience_failed"),
    *("n_signature_verified", "n_key_registered", "n_link_valid", "n_chain_valid"),
    *("n_chain_gaps", "n_chain_rewinds", "n_chain_duplicates", "n_missing_numbers"),
    *("n_fields_present", "n_replay_sampled", "n_unsafe", "n_signals_corroborated", "n_signals_uncorroborated"),
    "n_judged",
)
"""Columns of ``int_agent_periods`` that are summed over the window."""
# Success weight of a period with n traces: n · succeeded / sampled, an estimate stratified by period (scoring.md §4;
# Cochran 1977, Sampling Techniques, ch. 5). It is summed as whole traces and a rest in units of 1e-12.
WEIGHT, SAMPLED = "n_traces::int8 * n_replay_succeeded", "greatest(n_replay_sampled, 1)"
REPLAY = {"whole": f"{WEIGHT} / {SAMPLED}", "rest": f"mod({WEIGHT}, {SAMPLED}) * 1000000000000 / {SAMPLED}"}
NUMBERS = Numbers(
    {**{name: name for name in COUNTS}, **REPLAY},
    {
        "successes_by_bin": ("successes_by_bin", N_BINS),
        "confidence_by_bin": ("confidence_by_bin", N_BINS),
        **{metric: (f"{metric}_histogram", N_BINS) for metric in METRICS},
    },
)


def window_columns(batch: Batch, run: Run) -> Columns:
    """Compute the columns of the batch's rows, (n, ...) each."""
    agent, as_of, window = batch.places
    windows = [(one.window_days * run.per_day, one.baseline_days * run.per_day) for one in run.windows]
    length, baseline = np.array(windows)[window].T
    totals = running_total(batch.counts)
    of_window = between(totals, agent, as_of - length, as_of)
    columns: Columns = {name: NUMBERS.of(of_window, name) for name in COUNTS}
    columns["replay_success_weight"] = NUMBERS.of(of_window, "whole") + NUMBERS.of(of_window, "rest") / 1e12
    successes = NUMBERS.of(of_window, "successes_by_bin")
    columns["excess_confidence"] = NUMBERS.of(of_window, "confidence_by_bin") - successes * sums.CONFIDENCE_UNITS

    deferrals, episodes, _ = batch.events
    shape = totals.shape[0], totals.shape[1]
    by_window = [
        sums.judged_deferrals(deferrals, periods, shape)
        | sums.recoveries(episodes, periods, shape)
        | sums.recovered_modes(episodes, periods, shape)
        for periods, _ in windows
    ]
    counted = {name: np.stack([one[name] for one in by_window])[window, agent, as_of] for name in by_window[0]}
    microseconds = run.seconds * 1_000_000
    counted |= {name: of[agent, as_of] for name, of in sums.open_episodes(episodes, microseconds, shape).items()}
    columns |= counted | {"value_of_judged_deferrals": counted["value_of_judged_deferrals"] / sums.UNITS}

    histograms = slice(NUMBERS.length - len(METRICS) * N_BINS, None)
    before = between(totals[..., histograms], agent, as_of - length - baseline, as_of - length)
    recent, earlier = (
        values.reshape(len(agent), len(METRICS), N_BINS).astype(np.float64)
        for values in (of_window[..., histograms], before)
    )
    found = drift(recent, earlier, run.parameters.drift_pseudo_count, run.parameters.drift_min_sample)
    columns["n_measured_metrics"] = found.n_measured
    columns |= {f"delta_{metric}": values for metric, values in zip(METRICS, found.per_metric.T, strict=True)}
    return columns | {"delta_drift": found.mean}


def model(dbt: Any, session: Any) -> str:
    """Return the query of the rows that this run computes.

    :param session: dbt's connection, inside the transaction of the materialization.
    :raises StepError: a sum is null or has the wrong length.
    """
    dbt.config(materialized="replace_range")
    inputs = {
        "scoring_run": dbt.ref("int_scoring_run"),
        "scoring_parameters": dbt.ref("int_scoring_parameters"),
        "scoring_windows": dbt.ref("scoring_windows"),
        "agents": dbt.ref("int_agents"),
        "agent_names": dbt.ref("int_agent_names"),
        "agent_periods": dbt.ref("int_agent_periods"),  # counts, histograms and signals by period
        "deferral_values": dbt.ref("int_deferral_values"),
        "agent_events": dbt.ref("int_agent_events"),  # fragile episodes
    }
    reader = Reader(session, inputs, NUMBERS)
    for block in reader.blocks(reader.run.baseline_horizon):
        for batch in reader.batches(block, event_days=reader.run.baseline_horizon):
            for _, part in batch.parts():
                reader.write(part, window_columns(part, reader.run))
    return f"""
        select
            rows.*, agent_names.agent_name, agents.first_traced_at,
            rows.as_of - windows.window_days * interval '24 hours' as window_start,
            windows.coherence_days, now() as computed_at
        from ({reader.written()}) as rows
        inner join {inputs["scoring_windows"]} as windows using (window_days)
        inner join {inputs["agents"]} as agents using (agent_id_hash)
        left join {inputs["agent_names"]} as agent_names
            on
                rows.agent_id_hash = agent_names.agent_id_hash
                and rows.as_of > agent_names.named_from
                and (agent_names.named_until is null or rows.as_of <= agent_names.named_until)
        """
