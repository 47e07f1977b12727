"""How often honest agents raise signs of a polished record, and which manipulations are caught.

`python tests/python/signs.py` simulates honest fleets of several sizes and scores every day of their last weeks; then
fleets in which five agents are polished in each way of polished.py, from their first day or for the last weeks alone.
Prints the tables that docs/deciding.md has (about 15 minutes).
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import psycopg

from ciris_scoring.basics.terminal import aligned
from ciris_scoring.trial import embedded
from ciris_scoring.trial.simulation import PATHOLOGIES, Fleet, fleet_roster, simulate_fleet
from ciris_scoring.trial.simulation.load import load_fleet
from pipeline import score
from polished import MANIPULATIONS, Manipulation

END = datetime(2026, 6, 15, tzinfo=UTC)
WEEK = timedelta(days=7)
SIGNS = (
    *("contradicted_null", "shared_key", "unreported", "deferrals_left_open", "new_identity", "phase_churn"),
    *("volume_jump", "renumbered", "key_turnover"),
)


ONCE = END - timedelta(days=5)
LASTING = {"all along": END - 10 * WEEK, "for 15 days": END - timedelta(days=15)}
# Those of different agents share a fleet.
GROUPS = ([MANIPULATIONS[n] for n in (0, 2, 3, 4, 7, 8, 9)], [MANIPULATIONS[n] for n in (1, 5, 6, 10)])


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
        score(Path(folder), as_of)
        yield connection


def false_alarms(connection: psycopg.Connection) -> Windows:
    """Count the windows of all published as-ofs, and those with each sign."""
    [[n]] = connection.execute("select count(*) from ciris.fct_capacity_scores").fetchall()
    raised = dict(
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


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5, help="agents per manipulation")
    parser.add_argument("--part", choices=["honest", "polished", "both"], default="both")
    options = parser.parse_args()
    agents = options.rounds * len(PATHOLOGIES)
    if options.part != "polished":
        rows = []
        for n, days in ((30, 90), (100, 90), (600, 60)):
            with scored(simulate_fleet(agents, days, n / 7, options.seed, END)) as connection:
                windows = false_alarms(connection)
            rows.append(
                (
                    f"{n}",
                    f"{windows.n:,}",
                    *(f"{windows.raised.get(sign, 0) / windows.n:.2%}" for sign in SIGNS),
                )
            )
            print(rows[-1], flush=True)
        print(*aligned(("n", "windows", *SIGNS), rows, {"n", "windows", *SIGNS}), sep="\n")
    if options.part != "honest":
        rows = []
        for when, since in LASTING.items():
            for group in GROUPS:
                group = [m for m in group if m.lasts or when == "all along"]  # noqa: PLW2901
                fleet = simulate_fleet(agents, 42, 600 / 7, options.seed, END)
                ids = {m.name: agents_of(m.pathology, options.rounds, options.seed) for m in group}
                for m in group:
                    fleet = polish(fleet, m, ids[m.name], since if m.lasts else ONCE)
                with scored(fleet) as connection:
                    for m in group:
                        found = caught(connection, m, ids[m.name])
                        rows.append(
                            (
                                *(m.name, when if m.lasts else "once", m.sign or "none"),
                                *(f"{found[window][0]} of {options.rounds}" for window in (7, 30)),
                                *(f"{found[window][1]} of {options.rounds}" for window in (7, 30)),
                            )
                        )
                        print(rows[-1], flush=True)
        headings = ("manipulation", "begun", "sign", "7 days", "30 days", "any, 7 days", "any, 30 days")
        print(*aligned(headings, rows, set()), sep="\n")


if __name__ == "__main__":
    main()
