"""Every state that a run of ciris-scoring or plain dbt can die in, and every command of either that may come next: it
ends published and equal to what nobody disturbed, or is refused with a command that works.

`python tests/python/test_unfinished_runs.py` goes through all of them (part of `make soak`); `make test` through those
that have failed once, or might again. A statement that is refused stands in for a kill, a full disk and a lost session:
to the tables they are the same, a transaction that was rolled back. Real ones are in test_robust_runs.py.
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

import pytest

from ciris_scoring.basics.connection import one_row
from ciris_scoring.trial import embedded
from ciris_scoring.trial.embedded import SCHEMA, Server
from conftest import Database
from pipeline import MARTS, RUN_TIMES
from test_bad_input import Dbt, dbt, fleet_database, marts, restore, run, saved
from test_gate import NO_TRIGGER, published

BEFORE, NEWEST = "2026-06-14T00:00:00Z", "2026-06-15T00:00:00Z"
RANGE = ("--from", "2026-06-08T00:00:00Z", "--to", "2026-06-09T00:00:00Z")
RESCORE = (*RANGE, "--allow-rescoring", "--step-days", "61")
REFRESH = ("--full-refresh", "--allow-rescoring")
REFUSED = {"ciris_scoring_parameters": {"min_traces": -1}}
LONGER_LOOKBACK = {"ciris_lookback_periods": 6, "ciris_allow_rescoring": True}

# What ends a run: its nth writing of a table, or, of one that is not there or made anew, its making.
DIES = """
    create sequence public.written;
    create function public.refuse_to_make() returns event_trigger language plpgsql as $$
    begin
        if exists (
            select from pg_event_trigger_ddl_commands() as made
            where made.object_identity ~ '[."]{table}($|"|__dbt)'
        ) then
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
ARRIVES = f"""
    create function public.spoil() returns trigger language plpgsql as $$
    begin
        insert into cirislens.covenant_traces (agent_id_hash, trace_id, "timestamp")
        select (select min(agent_id_hash) from cirislens.covenant_traces), 'meanwhile ' || n, timestamptz '{BEFORE}'
        from generate_series(1, 1000) as n;
        return null;
    end $$;
    create trigger spoil after insert on {MARTS.places["int_trace_verdicts"]} execute function public.spoil();
    """
LIVES = """
    drop event trigger if exists refuse;
    drop function if exists public.refuse_to_make, public.refuse_to_write cascade;
    drop sequence if exists public.written;
    """
TABLES = ("int_window_sums", "int_window_statistics", "fct_capacity_scores", "int_runs")
"""One before the Python model, that one, and the first and the last behind the gate."""


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
    """A small fleet, the states that it is brought back to, and what undisturbed runs come to."""

    database: Database
    unscored: str
    scored: str
    expected: dict[str, dict[str, str]] = field(default_factory=dict)
    """Fingerprints of the marts, by what was published last."""


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
    """The fleet, scored up to the day before its last, and what is expected."""
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
    """Which as-ofs are published, of those that undisturbed runs publish."""
    with database.connect() as connection:
        return str(
            one_row(connection.execute(f"select min(as_of), max(as_of) from {SCHEMA}.fct_capacity_scores"))
        )


def die(fleet: Fleet, death: Death) -> None:
    """Bring a fleet to the state that a run has died in."""
    database = fleet.database
    restore(database, fleet.unscored if death.run == "a first run" else fleet.scored)
    nth = 2 if death.run == "a rescore" else 1  # in the step that scores
    with database.connect() as connection:
        if death.table == "int_runs":
            assert not _in_dbt(
                database, as_of=NEWEST, variables=REFUSED
            ).succeeded  # it makes the log, if need be
            connection.execute(DIES.format(table="nothing", nth=nth))
            connection.execute(PUBLISHING_DIES.format(relation=MARTS.places[death.table]))
        else:
            connection.execute(DIES.format(table=death.table, nth=nth))
        if death.run != "a first run" and death.table != "int_runs":
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
    """The same run in plain dbt."""
    given = {**(variables or {}), "ciris_as_of": as_of}
    if "--allow-rescoring" in arguments:
        given["ciris_allow_rescoring"] = True
    options = [option for option in arguments if option != "--allow-rescoring"]
    return dbt(database, "build", *options, variables=given)


def go_on(fleet: Fleet, command: str) -> str | None:
    """Give a command; what it says when it is refused."""
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
    """Do what a refusal says."""
    advice = re.search(r"ciris-scoring run((?: --[\w-]+(?: \d[\dTZ:-]+)?)*)", refusal)
    assert advice, f"no command: {refusal}"
    options = shlex.split(advice[1])
    result = run(fleet.database, *options, as_of=None if "--from" in options else NEWEST)
    return None if result.exit_code == 0 else result.stderr


def wrong_after(fleet: Fleet, death: Death, command: str) -> list[str]:
    """What is not as it should be when a command follows a run that died."""
    die(fleet, death)
    database = fleet.database
    found = marts(database, without=RUN_TIMES, may_be_none=True)  # a first run may have died before them
    refusal = go_on(fleet, command)
    if refusal is not None:
        if published(marts(database, without=RUN_TIMES, may_be_none=True)) != published(found):
            return [f"refused, but not without changes: {refusal}"]
        refusal = follow(fleet, refusal)
        if refusal is not None:
            return [f"the advice is refused too: {refusal}"]
    # A part is no run: what it leaves are marts of before and of this run.
    wrong = [] if command == "a part in plain dbt" and refusal is None else differences(fleet)
    if refused := go_on(fleet, "run"):  # whatever it was, the next day's run goes on from there
        if "did not end" not in refused:
            return [*wrong, f"the run after it is refused: {refused}"]
        if refused := follow(fleet, refused) or go_on(fleet, "run"):
            return [*wrong, f"the run after it is refused: {refused}"]
    return wrong + [f"after one more run, {line}" for line in differences(fleet)]


def differences(fleet: Fleet) -> list[str]:
    """Marts that differ from those of undisturbed runs that have published the same as-ofs."""
    found = marts(fleet.database, without=RUN_TIMES)
    key = _published(fleet.database)
    if key not in fleet.expected:
        return [f"published is {key}"]
    return [name for name, rows in fleet.expected[key].items() if found.get(name) != rows]


# --- those that make test goes through --------------------------------------------------------------------------------

CASES = [
    (Death("a run made twice", "fct_capacity_scores"), "rescore"),
    (Death("an increment", "int_window_sums"), "a part in plain dbt"),
    (Death("an increment", "fct_fleet_capacity"), "earlier run"),
    (Death("an increment", "int_window_statistics"), "plain dbt"),
    (Death("an increment", "int_runs", in_dbt=True), "run"),
    (Death("an increment", "int_window_statistics", in_dbt=True), "plain dbt retry"),
    (Death("a run with a longer lookback", "fct_fleet_capacity"), "run"),
    (Death("a rescore", "fct_capacity_scores"), "a part in plain dbt"),
    (Death("a full refresh", "int_capacity_scores"), "rescore"),
    (Death("a full refresh", "int_window_sums", in_dbt=True), "plain dbt"),
    (Death("a first run", "fct_fleet_capacity"), "rescore"),
    (Death("a first run", "int_window_sums", in_dbt=True), "plain dbt retry"),
]


@pytest.fixture(scope="module")
def fleet(embedded_postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with prepared(embedded_postgres, tmp_path_factory.mktemp("fleet")) as fleet:
        yield fleet


@pytest.mark.parametrize(
    ("death", "command"), CASES, ids=[f"{death}, then {command}" for death, command in CASES]
)
def test_what_comes_next_is_right_or_refused_with_a_command_that_works(
    fleet: Fleet, death: Death, command: str
) -> None:
    assert wrong_after(fleet, death, command) == []


def test_after_a_failed_blocking_test_no_part_is_built_and_retry_publishes_all(fleet: Fleet) -> None:
    """Many traces arrive while a run is at work, more than its test allows; then they are gone again."""
    database, variables = fleet.database, {"ciris_as_of": NEWEST}
    restore(database, fleet.scored)
    before = published(marts(database))
    with database.connect() as connection:
        connection.execute(ARRIVES)
        failed = dbt(database, "build", variables=variables)
        assert not failed.succeeded and "assert_every_source_row_is_judged" in failed.said
        retried = dbt(database, "retry")
        assert not retried.succeeded and "assert_every_source_row_is_judged" in retried.said
        connection.execute(NO_TRIGGER)
        connection.execute("delete from cirislens.covenant_traces where trace_id like 'meanwhile %'")
    with saved(database) as mended:
        retried = dbt(database, "retry")
        assert retried.succeeded, retried.said
        assert differences(fleet) == []
        restore(database, mended)
    part = dbt(database, *PART, variables=variables)
    assert not part.succeeded and "did not end" in part.said
    assert published(marts(database)) == before


def test_a_run_that_a_backfill_made_first_counts_for_what_is_final(fleet: Fleet) -> None:
    """Its cutoff lies 3 days before the as-of that was published before it."""
    die(fleet, Death("an increment", "fct_capacity_scores"))
    assert go_on(fleet, "rescore") is None
    refused = run(fleet.database, as_of=NEWEST, variables={"ciris_lookback_periods": 5})
    assert refused.exit_code == 1
    assert "final up to 2026-06-11T00:00:00Z" in " ".join(refused.stderr.split())


def main() -> int:
    """All of them; exit code 1 when anything is wrong."""
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
