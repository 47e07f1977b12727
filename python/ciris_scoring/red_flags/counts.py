"""Count what red flags compare, in every scored window and its baseline (certainty.md §5)."""

from collections.abc import Mapping

import numpy as np

from ciris_scoring.kinds import FLAGS
from ciris_scoring.red_flags.ties import Scored, count_ties
from ciris_scoring.windows.arrays import Columns, Integers, between, running_total
from ciris_scoring.windows.reading import AGENTS, Batch, Numbers, Reader
from ciris_scoring.windows.run import Run, number
from ciris_scoring.windows.sums import Deferrals, recovered_modes, recoveries, valid_at

FIELDS = (
    "action_was_overridden",
    "idma_fragility_flag",
    "coherence_passed",
    "action_success",
    "csdma_plausibility_score",
    "conscience_passed",
)
"""Fields whose absence is a red flag, in the order of the elements of array columns (certainty.md §5)."""
DAYS_TO_JUDGE = int(FLAGS["deferrals_left_open"].thresholds["days_to_judge"])
"""Days after which a deferral without a judgement counts as unresolved."""
COUNTS = ("n_traces", "n_trivial", "n_renumbered", "n_repeated_decisions", "n_shared_key", "n_new_keys")
ARRAYS = ("n_checked", "n_unreported", "n_contradicted")
"""Counters of ``int_agent_periods`` that are summed over window and baseline. ``ARRAYS`` have an element for each field
of ``FIELDS``."""
NUMBERS = Numbers({name: name for name in COUNTS}, {name: (name, len(FIELDS)) for name in ARRAYS})


def count(batch: Batch, scored: Scored, run: Run) -> Columns:
    """Return the counts of the batch's rows, (n, ...) each. Counts of the baseline have the prefix ``baseline_``, those
    of deferrals and of the window before have ``earlier``."""
    agent, as_of, window = batch.places
    lengths = [(one.window_days * run.per_day, one.baseline_days * run.per_day) for one in run.windows]
    length, baseline = np.array(lengths)[window].T
    totals, start = running_total(batch.counts), as_of - length
    sums, before = between(totals, agent, start, as_of), between(totals, agent, start - baseline, start)
    columns = {name: NUMBERS.of(sums, name) for name in NUMBERS.at}
    columns |= {f"baseline_{name}": NUMBERS.of(before, name) for name in NUMBERS.at}

    shape = totals.shape[0], totals.shape[1]
    of_episodes = [
        recoveries(batch.events.episodes, one, shape) | recovered_modes(batch.events.episodes, one, shape)
        for one, _ in lengths
    ]
    for name in ("n_recoveries", "n_modes"):
        counted = np.stack([one[name] for one in of_episodes])
        columns[name] = counted[window, agent, as_of]
        columns[f"n_earlier_{name.removeprefix('n_')}"] = counted[window, agent, start]
    of_deferrals = [deferral_counts(batch.events.deferrals, *one, run.per_day, shape) for one in lengths]
    for name in of_deferrals[0]:
        columns[name] = np.stack([one[name] for one in of_deferrals])[window, agent, as_of]
    return columns | count_ties(scored, batch.places, tuple(one for one, _ in lengths))._asdict()


def deferral_counts(
    deferrals: Deferrals, length: int, baseline: int, periods_per_day: int, shape: tuple[int, int]
) -> Mapping[str, Integers]:
    """Return counts of the deferrals raised in [T − since, T − until), at each T.

    A deferral older than ``DAYS_TO_JUDGE`` is unresolved if nobody had judged it by T. A deferral of the baseline is
    unresolved if nobody had judged it by the start of the window (certainty.md §5).

    :param length: number of periods of the window; ``baseline`` that of its baseline.
    :returns: arrays of ``shape`` by column.
    """
    agent, created, judged, _, is_escalated = deferrals
    to_judge = DAYS_TO_JUDGE * periods_per_day

    def raised(since: int, until: int) -> Integers:
        return valid_at(agent, created + until + 1, created + since + 1, shape)

    def unresolved(since: int, until: int, known_later: int) -> Integers:
        end = np.minimum(created + since, judged + known_later) + 1
        return valid_at(agent, created + until + 1, end, shape)

    due, earlier_due = (length + to_judge, to_judge), (length + baseline + to_judge, length + to_judge)
    known = np.maximum(created, judged) + 1
    return {
        "n_raised_deferrals": raised(length, 0),
        "n_escalated_deferrals": valid_at(agent, known, created + length + 1, shape, is_escalated),
        "n_older_deferrals": raised(*due),
        "n_unresolved_deferrals": unresolved(*due, 0),
        "n_earlier_older_deferrals": raised(*earlier_due),
        "n_earlier_unresolved_deferrals": unresolved(*earlier_due, length),
    }


def read_scored(reader: Reader, batch: Batch) -> Scored:
    """Read plausibility, alignment and coherence of the agents' traces in the windows of a block."""
    run, block = reader.run, batch.block
    query = f"""
        select array[agent_number, {number("period_start", run)} - {block.origin}, triples.triple]::int8[]
        from {reader.relations["agent_periods"]} as periods
        inner join {AGENTS} using (agent_id_hash)
        cross join unnest(periods.score_triples) as triples (triple)
        where periods.period_start >= %(begin)s and periods.period_start < %(end)s
        """
    times = {"begin": run.time(block.first - run.longest_window), "end": run.time(block.last)}
    return Scored(*reader.session.read(query, times | {"agents": batch.names}, len(Scored._fields)).T)
