"""How often honest agents raise signs of a polished record, and which manipulations are caught.

Simulated fleets, some with agents that leave out verdicts by accident or are polished in a way of polished.py,
are scored day by day.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import click
import psycopg

from benchmarks.coverage.polished import COMPONENTS, MANIPULATIONS, SCRUBBED, Manipulation, at_random, scrub
from benchmarks.verdicts import Verdict, announce
from ciris_scoring.basics.connection import connect
from ciris_scoring.basics.project import load_project
from ciris_scoring.basics.terminal import aligned
from ciris_scoring.job import run
from ciris_scoring.job.dbt_build import DbtBuild
from ciris_scoring.job.run_log import Attempt, logged
from ciris_scoring.lab import embedded
from ciris_scoring.lab.simulation import PATHOLOGIES, Fleet, fleet_roster, simulate_fleet
from ciris_scoring.lab.simulation.load import load_fleet

REPOSITORY = Path(__file__).parents[2]
END = datetime(2026, 6, 15, tzinfo=UTC)
WEEK = timedelta(days=7)
SIGNS = (
    *("contradicted_null", "shared_key", "unreported", "deferrals_left_open", "deferrals_escalated"),
    *("new_identity", "phase_churn"),
    *("volume_jump", "renumbered", "key_turnover", "repeated_records", "constant_value"),
)


ONCE = END - timedelta(days=5)
LASTING = {"all along": END - 10 * WEEK, "for 15 days": END - timedelta(days=15)}
GROUPS = (
    [MANIPULATIONS[n] for n in (0, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13)],
    [MANIPULATIONS[n] for n in (1, 5, 6, 14, 15)],
)
"""Manipulations of different agents share a fleet."""
MOST_FALSE = 0.01
"""Share of honest agents' windows that may raise a sign."""
LEAST_CAUGHT = 7
"""Of eight agents, within 30 days."""
ACCIDENTS = 0.005
"""Share of its traces from which a careless agent leaves out one verdict."""


class Windows(NamedTuple):
    """What was published of a fleet."""

    n: int
    """Agents' windows, over all as-ofs."""
    raised: dict[str, int]
    """Of them, those with a sign, by sign."""


@contextmanager
def scored(fleet: Fleet, as_of: datetime = END) -> Iterator[psycopg.Connection]:
    """A throw-away server with every score of a fleet."""
    with (
        embedded.throw_away() as server,
        tempfile.TemporaryDirectory() as folder,
        psycopg.connect(server.conninfo(), autocommit=True, options="-c timezone=UTC") as connection,
    ):
        load_fleet(connection, fleet)
        embedded.write_profile(Path(folder), server)
        build = DbtBuild(load_project(REPOSITORY, Path(folder)))
        attempt = Attempt("run", as_of)
        with logged(build.project, build.relations, attempt), connect(build.project) as session:
            run.score(session, build, as_of, attempt)
        yield connection


def false_alarms(connection: psycopg.Connection) -> Windows:
    """Count the windows of all published as-ofs, and those with each sign."""
    [[n]] = connection.execute("select count(*) from ciris.fct_capacity_scores").fetchall()
    raised: dict[str, int] = dict(
        connection.execute(
            "select sign, count(distinct (agent_id_hash, as_of, window_days)) from ciris.fct_record_signs group by sign"
        ).fetchall()
    )
    return Windows(n, raised)


def agents_of(pathology: str, rounds: int, seed: int) -> list[str]:
    """Ids of the agents with a pathology, one per round of the roster."""
    roster = fleet_roster(rounds * len(PATHOLOGIES), seed)
    return list(roster.loc[roster["pathology"] == pathology, "agent_id_hash"])[:rounds]


def polish(fleet: Fleet, manipulation: Manipulation, agents: list[str], since: datetime) -> Fleet:
    """The fleet with some agents polished from a time on."""
    for agent in agents:
        fleet = manipulation.polish(fleet, agent, since)
    return fleet


def careless(fleet: Fleet, one_in: int) -> Fleet:
    """The fleet with every one in so many agents leaving out a verdict now and then, one as often as another."""
    mine = fleet.traces["agent_id_hash"].isin(sorted(fleet.traces["agent_id_hash"].unique())[::one_in])
    for seed, field in enumerate(COMPONENTS):
        fleet = scrub(fleet, mine & at_random(fleet, ACCIDENTS / len(COMPONENTS), seed), field)
    return fleet


def caught_within(connection: psycopg.Connection, sign: str, agents: list[str], days: int) -> int:
    """Count the agents of which a sign was raised at one as-of of the last days, in either window."""
    query = """
        select count(distinct agent_id_hash) from ciris.fct_record_signs
        where sign = %s and agent_id_hash = any(%s) and as_of > %s
        """
    [[n]] = connection.execute(query, [sign, agents, END - timedelta(days=days)]).fetchall()
    return int(n)


def caught(
    connection: psycopg.Connection, manipulation: Manipulation, agents: list[str]
) -> dict[int, tuple[int, int]]:
    """By window: agents with one of the manipulation's signs at the last as-of, and with any sign."""
    query = """
        select window_days, agent_id_hash, array_agg(distinct sign::text) from ciris.fct_record_signs
        where as_of = %s group by window_days, agent_id_hash
        """
    found: dict[int, tuple[int, int]] = {7: (0, 0), 30: (0, 0)}
    ids = {*agents, *(agent[::-1] for agent in agents)}
    for window, agent, signs in connection.execute(query, [END]):
        if agent in ids:
            expected, any_sign = found[window]
            found[window] = (expected + (manipulation.sign in signs), any_sign + 1)
    return found


def run_signs(part: str | None, seed: int, progress: Callable[[str], None]) -> bool:
    """Measure and print.

    :param part: honest, polished or scrubbed; None for all.
    :param progress: is given each row as soon as it is there.
    :returns: whether every stated figure is met.
    """
    verdicts: list[Verdict] = []
    if part in (None, "honest"):
        verdicts += measure_honest(2, seed, progress)
    if part in (None, "polished"):
        measure_polished(5, seed, progress)
    if part in (None, "scrubbed"):
        verdicts += measure_scrubbed(8, seed, progress)
    return announce(verdicts, only_missed=True)


def measure_honest(rounds: int, seed: int, progress: Callable[[str], None]) -> list[Verdict]:
    """Print how many windows of honest agents raise each sign."""
    rows, verdicts = [], []
    for n, days, one_in in (
        *((30, 90, 0), (100, 90, 0), (600, 60, 0)),
        *((100, 90, 1), (300, 90, 1), (100, 90, 4), (300, 90, 4)),
    ):
        fleet = simulate_fleet(rounds * len(PATHOLOGIES), days, n / 7, seed, END)
        who = {0: "nobody", 1: "all"}.get(one_in, f"one in {one_in}")
        with scored(careless(fleet, one_in) if one_in else fleet) as connection:
            windows = false_alarms(connection)
        shares = {sign: windows.raised.get(sign, 0) / windows.n for sign in SIGNS}
        rows.append((f"{n}", who, f"{windows.n:,}", *(f"{share:.2%}" for share in shares.values())))
        progress(" ".join(rows[-1]))
        most = max(shares, key=lambda sign: shares[sign])
        verdicts.append(
            Verdict(
                f"false alarms of {most}, the most, {n} traces, careless: {who}",
                f"at most {MOST_FALSE:.0%}",
                f"{shares[most]:.2%}",
                shares[most] <= MOST_FALSE,
            )
        )
    click.echo(
        "\n".join(aligned(("n", "careless", "windows", *SIGNS), rows, {"n", "windows", *SIGNS})) + "\n"
    )
    return verdicts


def measure_polished(rounds: int, seed: int, progress: Callable[[str], None]) -> None:
    """Print how many agents are caught at 600 traces, by way to polish."""
    rows = []
    for when, since in LASTING.items():
        for group in GROUPS:
            tried = [m for m in group if m.lasts or when == "all along"]
            fleet = simulate_fleet(rounds * len(PATHOLOGIES), 42, 600 / 7, seed, END)
            ids = {m.name: agents_of(m.pathology, rounds, seed) for m in tried}
            for m in tried:
                fleet = polish(fleet, m, ids[m.name], since if m.lasts else ONCE)
            with scored(fleet) as connection:
                for m in tried:
                    found = caught(connection, m, ids[m.name])
                    rows.append(
                        (
                            *(m.name, when if m.lasts else "once", m.sign or "none"),
                            *(f"{found[window][0]} of {rounds}" for window in (7, 30)),
                            *(f"{found[window][1]} of {rounds}" for window in (7, 30)),
                        )
                    )
                    progress(" ".join(rows[-1]))
    headings = ("manipulation", "begun", "sign", "7 days", "30 days", "any, 7 days", "any, 30 days")
    click.echo("\n".join(aligned(headings, rows, set())) + "\n")


def measure_scrubbed(rounds: int, seed: int, progress: Callable[[str], None]) -> list[Verdict]:
    """Print how many agents with few traces are caught within 30 days."""
    rows, verdicts = [], []
    for n in (100, 300):
        for when, since in {"all along": END - 20 * WEEK, "for 30 days": END - timedelta(days=30)}.items():
            fleet = simulate_fleet(rounds * len(PATHOLOGIES), 75, n / 7, seed, END)
            ids = {m.name: agents_of(m.pathology, rounds, seed) for m in SCRUBBED}
            for m in SCRUBBED:
                fleet = polish(fleet, m, ids[m.name], since)
            with scored(fleet) as connection:
                for m in SCRUBBED:
                    assert m.sign is not None
                    found = caught_within(connection, m.sign, ids[m.name], 30)
                    rows.append((f"{n}", m.name, when, m.sign, f"{found} of {rounds}"))
                    progress(" ".join(rows[-1]))
                    verdicts.append(
                        Verdict(
                            f"{m.name} {when}, {n} traces",
                            f"at least {LEAST_CAUGHT} of {rounds}",
                            rows[-1][-1],
                            found >= LEAST_CAUGHT,
                        )
                    )
    click.echo("\n".join(aligned(("n", "left out", "begun", "sign", "within 30 days"), rows, {"n"})) + "\n")
    return verdicts
