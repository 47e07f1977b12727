"""Measure how often honest agents raise red flags of selective reporting, and which manipulations are found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from benchmarks.coverage.polished import COMPONENTS, MANIPULATIONS, SCRUBBED, Manipulation, at_random, scrub
from benchmarks.measure import score, throw_away_project
from benchmarks.table import show
from benchmarks.verdicts import Verdict, compared
from ciris_scoring.database.connection import connect, one_row
from ciris_scoring.database.terminal import say
from ciris_scoring.lab.simulation.behaviours import PATHOLOGIES
from ciris_scoring.lab.simulation.fleet import Fleet, simulate_fleet
from ciris_scoring.lab.simulation.load import load_fleet
from ciris_scoring.lab.simulation.plan import make_roster

END = datetime(2026, 6, 15, tzinfo=UTC)
SIGNS = sorted({m.red_flag for m in MANIPULATIONS if m.red_flag is not None})

GROUPS = (
    [MANIPULATIONS[n] for n in (0, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13)],
    [MANIPULATIONS[n] for n in (1, 5, 6, 14, 15)],
)
"""Two groups of manipulations. Within a group, each manipulation is tried on different agents of one fleet."""
MOST_FALSE = 0.01
"""Stated figure: largest share of honest agents' windows with a red flag."""
LEAST_CAUGHT = 7
"""Stated figure: smallest number of agents, out of eight manipulated agents, with the red flag within 30 days."""
ACCIDENTS = 0.005
"""Share of traces from which a careless agent omits the value of a field."""


@contextmanager
def scored(fleet: Fleet) -> Iterator[psycopg.Connection]:
    """Start a temporary server with all scores of a fleet."""
    with throw_away_project() as project, connect(project) as connection:
        load_fleet(connection, fleet)
        score(project, END)
        yield connection


def careless(fleet: Fleet, one_in: int) -> Fleet:
    """Return the fleet in which one of ``one_in`` agents omits values at random."""
    mine = fleet.traces["agent_id_hash"].isin(sorted(fleet.traces["agent_id_hash"].unique())[::one_in])
    for seed, field in enumerate(COMPONENTS):
        fleet = scrub(fleet, mine & at_random(fleet, ACCIDENTS / len(COMPONENTS), seed), field)
    return fleet


def measure_honest(seed: int, rounds: int = 2) -> list[Verdict]:
    """Measure in which share of honest agents' windows, over all as-ofs, each red flag is raised."""
    rows, verdicts = [], []
    for n, days, one_in in (
        *((30, 90, 0), (100, 90, 0), (600, 60, 0)),
        *((100, 90, 1), (300, 90, 1), (100, 90, 4), (300, 90, 4)),
    ):
        fleet = simulate_fleet(rounds * len(PATHOLOGIES), days, n / 7, seed, END)
        who = {0: "nobody", 1: "all"}.get(one_in, f"one in {one_in}")
        say(f"Honest agents with {n} traces in 7 days. Agents that omit values at random: {who}.")
        with scored(careless(fleet, one_in) if one_in else fleet) as connection:
            [windows] = one_row(connection.execute("select count(*) from ciris.fct_capacity_scores"))
            query = """
                select red_flag, count(distinct (agent_id_hash, as_of, window_days))
                from ciris.fct_red_flags group by red_flag
                """
            raised = dict(connection.execute(query).fetchall())
        shares = {red_flag: raised.get(red_flag, 0) / windows for red_flag in SIGNS}
        rows.append({"careless": who, "traces": n, "windows": windows} | shares)
        most = max(SIGNS, key=shares.__getitem__)
        what = f"share of false alarms of {most} ({n} traces in 7 days, values omitted by {who})"
        verdicts.append(compared(what, shares[most], most=MOST_FALSE))
    show(rows)
    return verdicts


CAUGHT = """
    select
        count(distinct agent_id_hash) filter (where as_of = %(end)s and window_days = 7),
        count(distinct agent_id_hash) filter (where as_of = %(end)s and window_days = 30),
        count(distinct agent_id_hash) filter (where as_of > %(end)s - interval '30 days')
    from ciris.fct_red_flags
    where agent_id_hash = any(%(agents)s) and red_flag = coalesce(%(red_flag)s, red_flag)
    """
COUNTS = ("7 days", "30 days", "within 30 days")


def caught(
    tried: Sequence[Manipulation], rounds: int, days: int, n: int, seed: int, lasts: int | None
) -> list[dict[str, Any]]:
    """Try each manipulation on ``rounds`` agents, and return how many of these agents have the expected red flag.

    Agents are counted at the last as-of, in windows of 7 and of 30 days, and within the last 30 days. If a manipulation
    has no expected red flag, any red flag counts.

    :param n: traces in 7 days.
    :param lasts: days since the manipulations began; None for all days. A manipulation that is done once was done 5
        days ago.
    """
    agents = rounds * len(PATHOLOGIES)
    fleet, roster = simulate_fleet(agents, days, n / 7, seed, END), make_roster(agents, seed)
    begun = "all along" if lasts is None else f"for {lasts} days"
    say(f"{len(tried)} manipulations, {n} traces, {begun}.")
    ids, rows = [], []
    for manipulation in tried:
        mine = list(roster.agent_id_hash[roster.pathology == manipulation.pathology])[:rounds]
        since = END - timedelta(days=(lasts or days) if manipulation.lasts else 5)
        for agent in mine:
            fleet = manipulation.polish(fleet, agent, since)
        ids.append([*mine, *(agent[::-1] for agent in mine)])  # new ids are reversed ids
    with scored(fleet) as connection:
        for (name, _, _, red_flag, goes_on), mine in zip(tried, ids, strict=True):
            found = one_row(connection.execute(CAUGHT, {"red_flag": red_flag, "end": END, "agents": mine}))
            row = {
                "manipulation": name,
                "traces": n,
                "begun": begun if goes_on else "once",
                "red_flag": red_flag,
            }
            rows.append(row | dict(zip(COUNTS, found, strict=True)))
    return rows


def measure_polished(seed: int, rounds: int = 5) -> list[Verdict]:
    """Measure all manipulations on agents with 600 traces in 7 days. No figure is stated for these manipulations."""
    rows = []
    for lasts in (None, 15):
        for group in GROUPS:
            tried = [m for m in group if m.lasts or lasts is None]
            rows += caught(tried, rounds, 42, 600, seed, lasts)
    show(rows)
    return []


def measure_scrubbed(seed: int, rounds: int = 8) -> list[Verdict]:
    """Measure the manipulations that must be found in 100 or 300 traces a week."""
    rows = []
    for n in (100, 300):
        for lasts in (None, 30):
            rows += caught(SCRUBBED, rounds, 75, n, seed, lasts)
    show(rows)
    what = "agents found: {manipulation}, {begun}, {traces} traces"
    return [compared(what.format_map(row), row[COUNTS[-1]], LEAST_CAUGHT, rounds) for row in rows]


MEASURES: dict[str, Callable[[int], list[Verdict]]] = {
    "honest": measure_honest,
    "polished": measure_polished,
    "scrubbed": measure_scrubbed,
}
"""Functions of the seed. Each measures one part of the benchmark, prints a table and returns comparisons with the
stated figures."""
