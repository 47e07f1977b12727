"""Combine every state in which a run of ciris-scoring or plain dbt can die with every next command of either. The
command must publish the same as undisturbed runs, or be refused with a remedy that works.

`python tests/programs/unfinished_runs.py` tries all combinations (part of `make soak`), test_unfinished_runs.py those
that failed before or are likely to. A refused statement simulates a kill, a full disk and a lost session, because all
of them roll back a transaction. test_robust_runs.py has real ones.
"""

from __future__ import annotations

import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import tests_path  # noqa: F401
from ciris_scoring.basics.connection import one_row
from ciris_scoring.lab import embedded
from ciris_scoring.lab.embedded import SCHEMA, Server
from conftest import Database
from pipeline import MARTS, RUN_TIMES
from test_bad_input import Dbt, dbt, fleet_database, marts, restore, run, saved
from test_gate import BEFORE, EVIDENCE, NEWEST, published

RANGE = ("--from", "2026-06-08T00:00:00Z", "--to", "2026-06-09T00:00:00Z")
RESCORE = (*RANGE, "--allow-rescoring", "--step-days", "61")
REFRESH = ("--full-refresh", "--allow-rescoring")
REFUSED = {"ciris_scoring_parameters": {"min_traces": -1}}
LONGER_LOOKBACK = {"ciris_lookback_periods": 6, "ciris_allow_rescoring": True}

# Trigger that ends a run at the nth write of a table, or at the nth creation of a table that is missing or recreated.
# For a mart it is the creation of its staging table.
DIES = """
    create sequence public.written;
    create function public.refuse_to_make() returns event_trigger language plpgsql as $$
    begin
        if exists (
            select from pg_event_trigger_ddl_commands() as made
            where made.object_identity ~ '[."]{table}($|"|__dbt|__next)'
        ) and nextval('public.written') = {nth} then
            raise exception 'the disk is full';
        end if;
    end $$;
    create event trigger refuse on ddl_command_end when tag in ('CREATE TABLE', 'CREATE TABLE AS')
        execute function public.refuse_to_make();
    create function public.refuse_to_write() returns trigger language plpgsql as $$
    begin
        if nextval('public.written') = {nth} then raise exception 'the disk is full'; end if;
        return null;
    end $$;
    """
WRITING_DIES = """
    create trigger refuse before insert on {relation} for each statement execute function public.refuse_to_write();
    """
PUBLISHING_DIES = """
    create trigger refuse after insert on {relation} for each row when (new.published_at is not null)
        execute function public.refuse_to_write();
    """
LIVES = """
    drop event trigger if exists refuse;
    drop function if exists public.refuse_to_make, public.refuse_to_write cascade;
    drop sequence if exists public.written;
    """
TABLES = ("int_agent_periods", "int_windows", "fct_capacity_scores", "int_runs")
"""A table before the Python model, that of the model, the scores, and the publication."""


@dataclass(frozen=True)
class Death:
    """A run, and the table at which it dies."""

    run: str
    table: str
    in_dbt: bool = False
    """Whether it is a run of plain dbt."""

    def __str__(self) -> str:
        return f"{self.run}{' of plain dbt' if self.in_dbt else ''} that died at {self.table}"


@dataclass
class Fleet:
    """A small fleet, its saved states, and the results of undisturbed runs."""

    database: Database
    unscored: str
    scored: str
    expected: dict[str, dict[str, str]] = field(default_factory=dict)
    """Fingerprints of the marts by what was published last."""


RUNS = {
    "an increment": {"as_of": NEWEST},
    "a run made twice": {"as_of": BEFORE},
    "a run with a longer lookback": {"as_of": NEWEST, "variables": LONGER_LOOKBACK},
    "a rescore": {"arguments": RESCORE, "as_of": None},
    "a full refresh": {"arguments": REFRESH, "as_of": NEWEST},
    "a first run": {"as_of": NEWEST},
}
PART = ("build", "--select", "fct_capacity_scores")
NEXT = (
    "run",
    "earlier run",
    "rescore",
    "full refresh",
    "plain dbt",
    "plain dbt retry",
    "a part in plain dbt",
)


@contextmanager
def prepared(server: Server, folder: Path) -> Iterator[Fleet]:
    """Yield the fleet, scored up to the day before the last, with the expected results."""
    with fleet_database(server, folder) as database, saved(database) as unscored:
        assert run(database, *RANGE, as_of=None).exit_code == 0
        expected = {_published(database): marts(database, without=RUN_TIMES)}
        assert run(database, as_of=NEWEST).exit_code == 0
        expected[_published(database)] = marts(database, without=RUN_TIMES)
        restore(database, unscored)
        assert run(database, as_of=BEFORE).exit_code == 0
        with saved(database) as scored:
            expected[_published(database)] = marts(database, without=RUN_TIMES)
            assert run(database, as_of=NEWEST).exit_code == 0
            expected[_published(database)] = marts(database, without=RUN_TIMES)
            assert len(expected) == 4
            yield Fleet(database, unscored, scored, expected)


def _published(database: Database) -> str:
    """Return a key of the published as-ofs among those that undisturbed runs publish."""
    with database.connect() as connection:
        return str(
            one_row(connection.execute(f"select min(as_of), max(as_of) from {SCHEMA}.fct_capacity_scores"))
        )


def die(fleet: Fleet, death: Death) -> None:
    """Bring the fleet to the state after a run died."""
    database = fleet.database
    restore(database, fleet.unscored if death.run == "a first run" else fleet.scored)
    nth = 2 if death.run == "a rescore" else 1  # the step that scores
    with database.connect() as connection:
        if death.table == "int_runs":
            assert not _in_dbt(
                database, as_of=NEWEST, variables=REFUSED
            ).succeeded  # creates the run log if it is missing
            connection.execute(DIES.format(table="nothing", nth=nth))
            connection.execute(PUBLISHING_DIES.format(relation=MARTS.places[death.table]))
        else:
            connection.execute(DIES.format(table=death.table, nth=nth))
        if death.run != "a first run" and death.table != "int_runs" and not death.table.startswith("fct_"):
            connection.execute(WRITING_DIES.format(relation=MARTS.places[death.table]))
        how = dict(RUNS[death.run])
        if death.in_dbt:
            said = _in_dbt(database, *how.pop("arguments", ()), **how).said
        else:
            said = run(database, *how.pop("arguments", ()), **how).output
        assert "the disk is full" in said, said[-2000:]
        connection.execute(LIVES)


def _in_dbt(
    database: Database, *arguments: str, as_of: str, variables: Mapping[str, Any] | None = None
) -> Dbt:
    """Make the same run with plain dbt."""
    given = {**(variables or {}), "ciris_as_of": as_of}
    if "--allow-rescoring" in arguments:
        given["ciris_allow_rescoring"] = True
    options = [option for option in arguments if option != "--allow-rescoring"]
    return dbt(database, "build", *options, variables=given)


def go_on(fleet: Fleet, command: str) -> str | None:
    """Execute a command. Return its message if it is refused."""
    database = fleet.database
    if "plain dbt" in command:
        words = {"plain dbt": ("build",), "plain dbt retry": ("retry",), "a part in plain dbt": PART}[command]
        outcome = dbt(database, *words, variables={"ciris_as_of": NEWEST})
        return None if outcome.succeeded else outcome.said
    result = {
        "run": lambda: run(database, as_of=NEWEST),
        "earlier run": lambda: run(database, as_of=BEFORE),
        "rescore": lambda: run(database, *RESCORE, as_of=None),
        "full refresh": lambda: run(database, *REFRESH, as_of=NEWEST),
    }[command]()
    return None if result.exit_code == 0 else result.stderr


def follow(fleet: Fleet, refusal: str) -> str | None:
    """Execute the remedy of a refusal."""
    advice = re.search(r"ciris-scoring run((?: --[\w-]+(?: \d[\dTZ:-]+)?)*)", refusal)
    assert advice, f"no command: {refusal}"
    options = shlex.split(advice[1])
    result = run(fleet.database, *options, as_of=None if "--from" in options else NEWEST)
    return None if result.exit_code == 0 else result.stderr


def wrong_after(fleet: Fleet, death: Death, command: str) -> list[str]:
    """Return what is wrong after a command follows a run that died."""
    die(fleet, death)
    database = fleet.database
    # a first run may have died before it created marts
    found = marts(database, without=RUN_TIMES, may_be_none=True)
    if death.run != "a first run" and (torn := set(differences(fleet)) - set(EVIDENCE)):
        return [f"the dead run has left marts of two publications: {sorted(torn)}"]
    refusal = go_on(fleet, command)
    if refusal is not None:
        if published(marts(database, without=RUN_TIMES, may_be_none=True)) != published(found):
            return [f"refused, but not without changes: {refusal}"]
        refusal = follow(fleet, refusal)
        if refusal is not None:
            return [f"the advice is refused too: {refusal}"]
    # A command for single models leaves some marts of the previous run.
    wrong = [] if command == "a part in plain dbt" and refusal is None else differences(fleet)
    if refused := go_on(fleet, "run"):  # the next day's run must succeed in any case
        if "did not end" not in refused:
            return [*wrong, f"the run after it is refused: {refused}"]
        if refused := follow(fleet, refused) or go_on(fleet, "run"):
            return [*wrong, f"the run after it is refused: {refused}"]
    return wrong + [f"after one more run, {line}" for line in differences(fleet)]


def differences(fleet: Fleet) -> list[str]:
    """Return the marts that differ from those of undisturbed runs with the same published as-ofs."""
    found = marts(fleet.database, without=RUN_TIMES)
    key = _published(fleet.database)
    if key not in fleet.expected:
        return [f"published is {key}"]
    return [name for name, rows in fleet.expected[key].items() if found.get(name) != rows]


def main() -> int:
    """Try all combinations. The exit code is 1 if anything is wrong."""
    wanted = sys.argv[1:]
    n = n_wrong = 0
    with (
        embedded.throw_away() as server,
        tempfile.TemporaryDirectory() as folder,
        prepared(server, Path(folder)) as fleet,
    ):
        for name, table, command, in_dbt in product(RUNS, TABLES, NEXT, (False, True)):
            if (wanted and name not in wanted) or (in_dbt and name == "a rescore"):
                continue
            death = Death(name, table, in_dbt)
            wrong = wrong_after(fleet, death, command)
            n, n_wrong = n + 1, n_wrong + bool(wrong)
            print(
                f"{death}, then {command}: {'WRONG' if wrong else 'right'}", *wrong, sep="\n    ", flush=True
            )
    print(f"unfinished runs: {n} pairs, {n_wrong} with something wrong")
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
