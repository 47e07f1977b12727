"""Tests of the event format of the lens: batches stored by the lens's engine and by the loader give the same scores,
and malformed events are counted and do not stop a run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from dbt.cli.main import dbtRunner
from psycopg import sql
from psycopg.types.json import Jsonb

import real_engine
from ciris_scoring.audit.load import load
from ciris_scoring.basics.project import load_project
from ciris_scoring.basics.source_schema import TRACE_COLUMNS
from ciris_scoring.lab.embedded import SCHEMA, Server
from ciris_scoring.lab.simulation import simulate_fleet
from ciris_scoring.lab.simulation.events import create_engine_tables, index_events
from ciris_scoring.lab.simulation.load import load_fleet
from command_line import at, invoke
from conftest import REPOSITORY, Database, fresh_database
from event_lens import AS_EVENTS, write_as_events
from pipeline import create_loose_sources, kept_parsed, score
from real_engine import needs_engine
from test_bad_input import dbt
from test_real_traces import DATA, period_end

PUT_TOGETHER = f"{SCHEMA}_staging.stg_cirislens__event_traces"
BATCHES = sorted(DATA.glob("batches/*/batches.jsonl.gz"))
ERASED = "3f764637717ba9ec"


# --- the same batches in both formats --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def both_ways(
    embedded_postgres: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Database, Database, datetime]]:
    """The real batches, stored by the loader and by the engine and scored; and the as-of.

    A run refuses an as-of in the future, so traces of the current day are moved back by whole days.
    """
    keys: dict[str, str] = {}
    for path in DATA.glob("batches/*/public_keys.json"):
        keys |= json.loads(path.read_text())
    with (
        fresh_database(embedded_postgres, tmp_path_factory.mktemp("loader")) as by_loader,
        fresh_database(embedded_postgres, tmp_path_factory.mktemp("engine")) as by_engine,
    ):
        project = load_project(REPOSITORY, by_loader.profiles_dir)
        load(project, [DATA / "batches"], sorted(DATA.glob("batches/*/public_keys.json")))
        refused = real_engine.store(_place(by_engine), tmp_path_factory.mktemp("home"), BATCHES, keys)
        assert len(refused) == 1 and "wbd_deferral" in refused[0]
        with by_loader.connect() as loader, by_engine.connect() as engine:
            [[last]] = loader.execute('select max("timestamp") from cirislens.covenant_traces').fetchall()
            as_of = period_end(last, "day")
            days = timedelta(days=max(0, -((datetime.now(UTC) - as_of) // timedelta(days=1))))
            loader.execute('update cirislens.covenant_traces set "timestamp" = "timestamp" - %s', [days])
            engine.execute("update cirislens.trace_events set ts = ts - %s", [days])
        for database in (by_loader, by_engine):
            score(database.profiles_dir, as_of - days)
        yield by_loader, by_engine, as_of - days


def _place(database: Database) -> dict[str, str | int]:
    server = database.server
    return {"host": server.socket_folder, "port": server.port, "user": server.user, "dbname": database.name}


@needs_engine
def test_loader_and_engine_give_the_same_scores(both_ways):
    """Scores are equal to the last digit. The engine drops the only deferral, which is unresolved and so does not
    matter."""
    by_loader, by_engine, _ = both_ways
    scores, components, issues = [], [], []
    for database in (by_loader, by_engine):
        with database.connect() as connection:
            found = connection.execute(
                f"select agent_id_hash, as_of, window_days, capacity_score, category, n_traces"
                f" from {SCHEMA}.fct_capacity_scores"
            ).fetchall()
            scores.append(sorted(found))
            found = connection.execute(
                "select agent_id_hash, as_of, window_days, component, component_value"
                f" from {SCHEMA}.fct_factor_components"
            ).fetchall()
            components.append({row[:-1]: row[-1] for row in found})
            found = connection.execute(
                f"select agent_id_hash, period_start, issue, n from {SCHEMA}.fct_data_quality"
                # The engine does not store batches.
                " where issue not in ('ingestion_received', 'ingestion_accepted', 'ingestion_rejected')"
            ).fetchall()
            issues.append(set(found))
    assert scores[0] and scores[0] == scores[1]
    assert issues[0] == issues[1]
    assert len({component for *_, component in components[0]}) > 20
    assert components[0] == components[1]


@needs_engine
def test_loader_and_staging_find_every_column_in_the_same_place(both_ways):
    rows = []
    columns = ", ".join(f'"{name}"' for name in TRACE_COLUMNS)
    for database, table in zip(both_ways[:2], ("cirislens.covenant_traces", PUT_TOGETHER), strict=True):
        with database.connect() as connection:
            found = connection.execute(f"select {columns} from {table}").fetchall()
            rows.append({(row[2], row[0]): dict(zip(TRACE_COLUMNS, row, strict=True)) for row in found})
    loaded, put_together = rows
    assert len(loaded) == 318 and loaded.keys() == put_together.keys()
    for key, row in loaded.items():
        # The loader removes the prefix. For events the staging model does, as for rows of a lens.
        put_together[key]["selected_action"] = put_together[key]["selected_action"].removeprefix(
            "HandlerActionType."
        )
        assert put_together[key] == row


@needs_engine
def test_simulated_tables_have_the_structure_of_the_engines(both_ways, database):
    """The tables of the simulation have the columns, types and indexes of the engine's tables."""
    described = []
    for place in (both_ways[1], database):
        with place.connect() as connection:
            if place is database:
                make_tables(connection)
            columns = connection.execute(
                "select c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull"
                " from pg_attribute as a join pg_class as c on c.oid = a.attrelid"
                " where c.relnamespace = 'cirislens'::regnamespace and c.relkind = 'r' and a.attnum > 0"
            ).fetchall()
            indexes = connection.execute(
                "select indexname, indexdef from pg_indexes where schemaname = 'cirislens'"
                " and indexname ~ '^trace_events_(type_ts|agenthash_ts|an_trace_summary)$'"
            ).fetchall()
            described.append((set(columns), set(indexes)))
    (columns, indexes), (our_columns, our_indexes) = described
    assert our_columns <= columns and our_indexes <= indexes and len(our_indexes) == 3


def make_tables(connection: psycopg.Connection) -> None:
    create_engine_tables(connection)
    index_events(connection)


@needs_engine
def test_erased_traces_leave_the_restatement_window(both_ways, tmp_path):
    """This test must be the last one with these databases, because it changes them."""
    _, by_engine, as_of = both_ways
    with by_engine.connect() as connection:
        verdicts = f"select count(*) from {SCHEMA}_intermediate.int_trace_checks where agent_id_hash = %s"
        assert connection.execute(verdicts, [ERASED]).fetchone() == (209,)
        code = f"engine.delete_traces_for_agent_id_hash('{ERASED}')"
        real_engine.store(_place(by_engine), tmp_path, [], {}, code=code)
        score(by_engine.profiles_dir, as_of)
        assert connection.execute(verdicts, [ERASED]).fetchone() == (0,)


# --- malformed events ------------------------------------------------------------------------------------------------

AGENT, OTHER = "a" * 16, "b" * 16
START = datetime(2026, 6, 10, 9, tzinfo=UTC)
WHOLE: dict[str, dict[str, Any]] = {
    "THOUGHT_START": {"thought_type": "standard"},
    "SNAPSHOT_AND_CONTEXT": {"agent_name": "Kim"},
    "DMA_RESULTS": {"csdma": {"plausibility_score": 0.9}, "dsdma_domain_alignment": 0.8},
    "IDMA_RESULT": {"k_eff": 1.5, "fragility_flag": False, "phase": "healthy"},
    "ASPDMA_RESULT": {"selected_action": "HandlerActionType.SPEAK"},
    "CONSCIENCE_RESULT": {
        "conscience_passed": True, "action_was_overridden": False, "entropy_level": 0.125, "entropy_score": 0.125,
        "coherence_level": 0.75, "coherence_passed": True,
    },
    "ACTION_RESULT": {"execution_success": True, "audit_sequence_number": 1, "audit_entry_hash": "h"},
}  # fmt: skip


def write(
    connection: psycopg.Connection, trace_id: str, minute: int, agent: str | None = AGENT, **payloads: Any
) -> None:
    """Write the events of a trace, a second apart. Given payloads replace the default ones; None omits an event.

    A list writes one event for each attempt. A name such as ACTION_RESULT__2 sets the index of the attempt.
    """
    second = 0
    for event_type, payload in {**WHOLE, **payloads}.items():
        second += 1
        attempts = payload if isinstance(payload, list) else [payload]
        for attempt, sent in enumerate(attempts):
            if sent is None:
                continue
            connection.execute(
                "insert into cirislens.trace_events (trace_id, thought_id, event_type, attempt_index, ts,"
                " agent_id_hash, trace_level, payload, signature, signing_key_id, signature_verified, schema_version)"
                " values (%s, 'th', %s, %s, %s, %s, 'detailed', %s, 's', 'k', true, '9.9.9')",
                [
                    trace_id, event_type, attempt,
                    START + timedelta(minutes=minute, seconds=second + 10 * attempt), agent, Jsonb(sent),
                ],
            )  # fmt: skip


def put_together(connection: psycopg.Connection) -> dict[tuple[str | None, str], dict[str, Any]]:
    names = [*TRACE_COLUMNS, "event_issues"]
    columns = ", ".join(f'"{name}"' for name in names)
    rows = connection.execute(f"select {columns} from {PUT_TOGETHER}").fetchall()
    return {(row[2], row[0]): dict(zip(names, row, strict=True)) for row in rows}


KEYS = """
    insert into cirislens.federation_keys values
        ('plain', 'hybrid', '2026-01-01', null), ('ending', 'hybrid', '2026-01-01', '2026-03-01'),
        ('revoked', 'hybrid', '2026-01-01', '2026-05-01');
    insert into cirislens.federation_revocations (revoked_key_id, effective_at) values
        ('revoked', '2026-04-01'), ('revoked', '2026-02-01');
    insert into cirislens.accord_public_keys (key_id, public_key_base64, revoked_at) values
        ('accord', '-', null), ('plain', '-', '2026-02-15')
"""
ENDS_OF_KEYS = {"accord": None, "ending": "2026-03-01", "plain": "2026-02-15", "revoked": "2026-02-01"}
"""A key of both registries ends at the earliest of its ends and revocations."""


def test_malformed_events_are_counted_and_do_not_stop_a_run(database: Database) -> None:
    with database.connect() as connection:
        make_tables(connection)
        connection.execute(KEYS)
        write(connection, "whole", 0, LLM_CALL={"model": "m"})
        write(connection, "no outcome", 1, ACTION_RESULT=None)
        write(connection, "no object", 2, DMA_RESULTS=[[1, 2]], IDMA_RESULT="none", THOUGHT_START=7)
        write(
            connection, "wrong types", 3,
            DMA_RESULTS={"csdma": {"plausibility_score": "0.9"}, "dsdma": {"domain_alignment": None}},
            IDMA_RESULT={"k_eff": True, "fragility_flag": "no", "phase": 3},
            ACTION_RESULT={"success": 1, "audit_sequence_number": "5", "audit_entry_hash": []},
        )  # fmt: skip
        write(
            connection, "two outcomes", 4,
            ACTION_RESULT=[
                {"execution_success": False, "audit_sequence_number": 2},
                {"execution_success": True, "audit_sequence_number": 3},
            ],
            DMA_RESULTS=[{"csdma_plausibility_score": 0.1}, {"csdma_plausibility_score": 0.456}],
        )  # fmt: skip
        write(connection, "shared", 5)
        write(connection, "shared", 5, OTHER, ACTION_RESULT=None, THOUGHT_START=None)
        write(connection, "nobody", 6, None)
        write(connection, "entropy not measured", 7, CONSCIENCE_RESULT={"entropy_level": 0.0})
        write(connection, "of other types", 8, **dict.fromkeys(WHOLE), VERB_SECOND_PASS_RESULT={})
        write(connection, "many digits", 9, DMA_RESULTS={"csdma": {"plausibility_score": 10**400}})
        score(database.profiles_dir, START.replace(day=11, hour=0))
        traces = put_together(connection)
        issues = {key[1]: row["event_issues"] for key, row in traces.items() if key[0] != OTHER}
        assert issues == {
            "whole": None, "entropy not measured": None, "many digits": None, "nobody": None,
            "no outcome": ["no_action_result"],
            "no object": ["unreadable_idma_result", "unreadable_thought_start", "unreadable_dma_results"],
            "wrong types": [
                "unreadable_audit_entry_hash", "unreadable_audit_sequence_number",
                "unreadable_csdma_plausibility_score", "unreadable_idma_k_eff", "unreadable_idma_fragility_flag",
                "unreadable_idma_phase", "unreadable_action_success",
            ],
            "two outcomes": ["several_action_results"],
            "shared": ["trace_id_of_two_agents"],
        }  # fmt: skip
        whole = traces[AGENT, "whole"]
        assert whole["timestamp"] == START + timedelta(seconds=7)
        scores = ("csdma_plausibility_score", "dsdma_domain_alignment", "entropy_level", "coherence_level")
        assert [float(whole[name]) for name in scores] == [0.9, 0.8, 0.125, 0.75]
        assert whole["agent_name"] == "Kim" and whole["idma_phase"] == "healthy"
        assert traces[AGENT, "no outcome"]["timestamp"] == START + timedelta(minutes=1, seconds=6)
        assert traces[AGENT, "entropy not measured"]["entropy_level"] is None
        both = traces[AGENT, "two outcomes"]
        assert (both["audit_sequence_number"], both["action_success"]) == (3, True)
        assert float(both["csdma_plausibility_score"]) == 0.46
        half = traces[OTHER, "shared"]
        assert half["event_issues"] == ["no_action_result", "trace_id_of_two_agents"]
        counted = dict(
            connection.execute(
                f"select issue, sum(n)::integer from {SCHEMA}.fct_data_quality group by 1"
            ).fetchall()
        )
        assert counted == {
            "no_action_result": 2, "several_action_results": 1, "trace_id_of_two_agents": 2,
            "blank_agent_id_hash": 1, "out_of_range_csdma_plausibility_score": 1,
            "unreadable_thought_start": 1, "unreadable_dma_results": 1, "unreadable_idma_result": 1,
            **dict.fromkeys(issues["wrong types"], 1),
        }  # fmt: skip
        keys = connection.execute(
            "select key_id, least(min(revoked_at), min(expires_at))"
            f" from {SCHEMA}_staging.stg_cirislens__covenant_public_keys group by 1"
        )
        assert {key: end and f"{end.astimezone(UTC):%Y-%m-%d}" for key, end in keys} == ENDS_OF_KEYS
        # The rest of a trace arrives in another transaction, after a run has already checked the trace.
        write(
            connection, "no outcome", 1, **(dict.fromkeys(WHOLE) | {"ACTION_RESULT": WHOLE["ACTION_RESULT"]})
        )
        score(database.profiles_dir, START.replace(day=11, hour=0))
        verdicts = connection.execute(
            f"select traced_at, repairs from {SCHEMA}_intermediate.int_trace_checks where trace_id = 'no outcome'"
        ).fetchall()
        assert verdicts == [(START + timedelta(minutes=1, seconds=7), None)]


# --- a simulated fleet: what a run checks again, and indexes ----------------------------------------------------------

NEWEST = "2026-06-15T00:00:00Z"


@pytest.fixture(scope="module")
def fleet(module_database: Database) -> Database:
    """A scored fleet that the simulation wrote as events."""
    with module_database.connect() as connection:
        end = datetime.fromisoformat(NEWEST)
        load_fleet(connection, simulate_fleet(6, 20, 20.0, 3, end), as_events=True)
        # A vacuum while a slow machine tests would make other indexes of so small a table cheaper.
        connection.execute("alter table cirislens.trace_events set (autovacuum_enabled = off)")
    score(module_database.profiles_dir, NEWEST)
    return module_database


def test_a_call_of_a_model_is_no_change_of_its_trace(fleet: Database) -> None:
    """test_healing.py tests that every other change of events is seen."""
    columns = "trace_id, thought_id, ts, agent_id_hash, trace_level, payload"
    with fleet.connect() as connection:
        connection.execute(
            f"insert into cirislens.trace_events ({columns}, event_type, attempt_index)"
            f" select {columns}, 'LLM_CALL', 1 from cirislens.trace_events"
            " where event_type = 'DMA_RESULTS' and ts between '2026-06-12T09:00Z' and '2026-06-13Z'"
        )
    models = ("--select", "path:models/staging", "int_source_periods", "int_scoring_run")
    outcome = dbt(fleet, "run", *models, variables={"ciris_as_of": NEWEST})
    assert outcome.succeeded, outcome.said
    with fleet.connect() as connection:
        query = f"select rechecked_from from {SCHEMA}_intermediate.int_scoring_run"
        assert connection.execute(query).fetchall() == [(datetime.fromisoformat(NEWEST),)]


def test_an_increment_reads_events_by_the_engines_indexes(fleet: Database) -> None:
    """Traces of a day are looked up by time and then by trace id, so the duration does not depend on the history."""
    with fleet.connect() as connection:
        for columns in ("*", "traced_at, agent_id_hash", "row_version, traced_at"):
            query = sql.SQL(
                "explain (format json, costs off) select {} from {}_staging.stg_cirislens__covenant_traces"
                " where traced_at >= '2026-06-14Z' and traced_at < '2026-06-15Z'"
            ).format(sql.SQL(columns), sql.SQL(SCHEMA))
            [[plan]] = connection.execute(query).fetchall()
            scans = [node for node in _nodes(plan[0]["Plan"]) if node.get("Relation Name") == "trace_events"]
            assert scans and all("Seq Scan" not in node["Node Type"] for node in scans), plan
            assert "trace_events_type_ts" in json.dumps(plan)


def test_incomplete_traces_are_found_by_the_engines_indexes(fleet: Database) -> None:
    """Neither the table nor a copy of it is scanned."""
    models = ("--select", "stg_cirislens__incomplete_event_traces")
    with kept_parsed(fleet.profiles_dir):
        command = ["compile", *models, "--vars", f"{{ciris_as_of: {NEWEST}}}"]
        outcome = dbtRunner().invoke([*command, *at(fleet), "--quiet"])
    [result] = outcome.result.results
    with fleet.connect() as connection:
        connection.execute("set enable_seqscan to off")
        query = sql.SQL("explain (format json, costs off) {}").format(sql.SQL(result.node.compiled_code))
        [[plan]] = connection.execute(query).fetchall()
    kinds = {node["Node Type"] for node in _nodes(plan[0]["Plan"])}
    assert "2026-06-15" in result.node.compiled_code  # the beginning of the restatement window
    assert not kinds & {"Seq Scan", "CTE Scan"}, kinds
    assert {"trace_events_type_ts", "trace_events_an_trace_summary"} <= {
        node.get("Index Name") for node in _nodes(plan[0]["Plan"])
    }


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)


def test_variable_chooses_between_two_source_formats(database: Database) -> None:
    with database.connect() as connection:
        create_loose_sources(connection)
        result = invoke("check", *at(database))
        assert "The lens stores traces." in result.stdout and "Both" not in result.stdout
        write_as_events(connection)
        result = invoke("check", *at(database))
        assert "The lens stores traces." in result.stdout
        assert "Both cirislens.covenant_traces and cirislens.trace_events are there" in result.stdout
        result = invoke("check", "--json", *at(database), "--vars", json.dumps(AS_EVENTS))
        found = json.loads(result.stdout)
        assert found["source_shape"] == "events" and found["faults"] == []
        assert "trace_events" in [source["name"] for source in found["sources"]]
        result = invoke("check", *at(database), "--vars", "{ciris_source: rows}")
        assert "ciris_source is 'rows', but must be traces or events" in result.stdout + result.stderr
        connection.execute("drop table cirislens.covenant_traces, cirislens.wbd_deferrals cascade")
        result = invoke("check", *at(database))
        assert "The lens stores events." in result.stdout
        assert "There is no cirislens.wbd_deferrals, so no deferral is known" in result.stdout
        connection.execute("alter table cirislens.trace_events drop payload")
        result = invoke("check", *at(database))
        assert result.exit_code == 1 and "trace_events has no column payload" in result.stdout
