"""Tests of the event format of the lens: the events that the lens's engine stores give the same traces as the loader,
and malformed events are counted and do not stop a run.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg

import real_engine
from ciris_scoring.audit.load import load
from ciris_scoring.database.project import load_project
from ciris_scoring.database.source_schema import TRACE_COLUMNS
from ciris_scoring.lab.embedded import SCHEMA
from command_line import command, succeeded
from conftest import DATA, REPOSITORY, Database
from event_lens import AS_EVENTS, create_engine_tables, insert_events, write_as_events
from pipeline import create_loose_sources, score
from real_engine import needs_engine
from signed_batches import NEW, OLD, TWO_FIELDS, Agent, batch
from test_bad_input import dbt

PUT_TOGETHER = f"{SCHEMA}_staging.stg_cirislens__event_traces"
REAL = DATA / "batches"
Json = dict[str, Any]
NEWEST = "2026-06-15T00:00:00Z"


# --- events that the engine stores -----------------------------------------------------------------------------------


def columns_of(connection: psycopg.Connection, relation: str) -> dict[tuple[str | None, str], dict[str, Any]]:
    """Return the rows of a relation of traces by agent and trace id."""
    names = [*TRACE_COLUMNS, "run_kind", *(["event_issues"] if relation == PUT_TOGETHER else [])]
    columns = ", ".join(f'"{name}"' for name in names)
    rows = connection.execute(f"select {columns} from {relation}").fetchall()
    return {(row[2], row[0]): dict(zip(names, row, strict=True)) for row in rows}


def structure(connection: psycopg.Connection) -> tuple[set, set]:
    """Return columns and indexes of the tables of events."""
    columns = connection.execute(
        "select c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull"
        " from pg_attribute as a join pg_class as c on c.oid = a.attrelid"
        " where c.relnamespace = 'cirislens'::regnamespace and c.relkind = 'r' and a.attnum > 0"
    ).fetchall()
    indexes = connection.execute(
        "select indexname, indexdef from pg_indexes where schemaname = 'cirislens'"
        " and indexname ~ '^trace_events_(type_ts|agenthash_ts|an_trace_summary)$'"
    ).fetchall()
    return set(columns), set(indexes)


def in_old_places(data: dict[str, dict[str, Any]]) -> None:
    """Move values to where agents before 1.9.3 stored them (IDMA), before 1.9.1 (levels) and before February 2026
    (name)."""
    data["DMA_RESULTS"]["idma"] = data.pop("IDMA_RESULT")
    conscience = data["CONSCIENCE_RESULT"]
    conscience["epistemic_data"] = {name: conscience.pop(name) for name in ("entropy_level", "coherence_level")}
    name = data["SNAPSHOT_AND_CONTEXT"].get("agent_name")
    identity = {"agent_id": name} if name else {"agent_id": "x", "agent_name": "Probe"}
    data["SNAPSHOT_AND_CONTEXT"] |= {"agent_name": "", "system_snapshot": {"agent_identity": identity}}


def not_measured(data: dict[str, dict[str, Any]]) -> None:
    """Record an entropy of 0 that was not measured, in the old place."""
    in_old_places(data)
    data["CONSCIENCE_RESULT"]["epistemic_data"]["entropy_level"] = 0.0
    del data["CONSCIENCE_RESULT"]["entropy_score"]


def with_attempts(trace: Json, *attempts: tuple[str, int, int | None, Json]) -> None:
    """Replace the last two components by these: type, seconds after the first component, attempt_index and changes."""
    last = {part["event_type"]: part for part in trace["components"][-2:]}
    start = datetime.fromisoformat(trace["started_at"])
    trace["components"][-2:] = [
        {
            **last[kind],
            "timestamp": (start + timedelta(seconds=second)).isoformat(),
            "data": last[kind]["data"] | ({} if index is None else {"attempt_index": index}) | changes,
        }
        for kind, second, index, changes in attempts
    ]


OVERRIDDEN, FAILED = {"action_was_overridden": True, "coherence_level": 0.2}, {"execution_success": False}
ATTEMPTS = [
    [("CONSCIENCE_RESULT", 4, 0, OVERRIDDEN), ("CONSCIENCE_RESULT", 5, 1, {}), ("ACTION_RESULT", 6, 0, {})],
    [("CONSCIENCE_RESULT", 5, 1, {}), ("ACTION_RESULT", 6, 1, {}), ("ACTION_RESULT", 5, 0, FAILED)],
    [("CONSCIENCE_RESULT", 5, 1, {}), ("ACTION_RESULT", 6, 10, {}), ("ACTION_RESULT", 5, 9, FAILED)],
    [("CONSCIENCE_RESULT", 5, 0, {}), ("ACTION_RESULT", 6, None, {}), ("ACTION_RESULT", 5, None, FAILED)],
    [("CONSCIENCE_RESULT", 5, 0, {}), ("ACTION_RESULT", 6, 2, {}), ("ACTION_RESULT", 6, 2, FAILED)],
]
"""Attempts of which the right one succeeds: it has the greatest index, then the latest time, then is the first."""


def made_batch(old_agents: Sequence[Agent], new_agent: Agent) -> Json:
    """Return a batch of traces with values in old places and of traces with several attempts at a step."""
    sent = []
    for agent in old_agents:
        for change in (in_old_places, not_measured):
            trace = agent.trace()
            data = {part["event_type"]: part["data"] for part in trace["components"]}
            change(data)
            trace["components"] = [part for part in trace["components"] if part["event_type"] in data]
            sent.append(agent.sign(trace))
    for attempts in ATTEMPTS:
        trace = new_agent.trace()
        with_attempts(trace, *attempts)
        sent.append(new_agent.sign(trace))
    return batch(sent)


REPLAYED = {
    "conscience_result": [
        *["conscience_passed", "action_was_overridden", "optimization_veto_passed", "epistemic_humility_passed"],
        *(f"{name}_{what}" for name in ("entropy", "coherence") for what in ("level", "score", "threshold", "passed")),
        *["thought_depth_triggered", "updated_status_detected", "ethical_faculties_skipped"],
    ],
    "action_result": ["execution_success", "success", "audit_sequence_number", "audit_entry_hash"],
}
"""Values that replays read from payloads of events."""


def replayed(row: Json) -> Json:
    """Return the JSON components of a trace with the values that replays read."""
    parts: Json = {
        part: row[part] and {name: row[part][name] for name in names if row[part].get(name) is not None}
        for part, names in REPLAYED.items()
    }
    parts["thought_start"] = {} if row["thought_start"] is not None else None
    if row["dma_results"] is not None:
        dma = row["dma_results"]
        parts["dma_results"] = {
            column: dma.get(judge, {}).get(value, dma.get(column))
            for judge, value, column in (
                ("csdma", "plausibility_score", "csdma_plausibility_score"),
                ("dsdma", "domain_alignment", "dsdma_domain_alignment"),
            )
        }
    return parts


@needs_engine
def test_batches_that_the_engine_stores_give_the_rows_that_the_loader_stores(
    database: Database, tmp_path: Path
) -> None:
    """The batches are real ones, and one with values in old places and several attempts. The engine's tables must also
    have all columns and indexes of the simulation's tables."""
    agents = old, stripping, new = Agent(OLD), Agent(TWO_FIELDS), Agent(NEW)
    made, keys = tmp_path / "made.jsonl.gz", {}
    made.write_bytes(gzip.compress(json.dumps(made_batch([old, stripping], new)).encode()))
    of_made = tmp_path / "public_keys.json"
    of_made.write_text(json.dumps({key: text for agent in agents for key, text in agent.keys.items()}))
    key_files = [*sorted(REAL.glob("*/public_keys.json")), of_made]
    for path in key_files:
        keys |= json.loads(path.read_text())
    summary = load(load_project(REPOSITORY, database.profiles_dir), [REAL, made], key_files)
    assert summary.is_clean, summary.problems
    with database.connect() as connection:
        loaded = columns_of(connection, "cirislens.covenant_traces")
        connection.execute("drop schema cirislens cascade")
        create_engine_tables(connection)
        our_columns, our_indexes = structure(connection)
        connection.execute("drop schema cirislens cascade")
    refused = real_engine.store(database, tmp_path, [*sorted(REAL.glob("*/batches.jsonl.gz")), made], keys)
    assert len(refused) == 1 and "wbd_deferral" in refused[0]
    selected = ("--select", "+stg_cirislens__event_traces", "--indirect-selection", "cautious")
    succeeded(dbt(database, "build", *selected, variables={"ciris_as_of": NEWEST}))
    with database.connect() as connection:
        put_together = columns_of(connection, PUT_TOGETHER)
        columns, indexes = structure(connection)
    assert len(loaded) == 318 + 4 + len(ATTEMPTS) and loaded.keys() == put_together.keys()
    several = sorted(key for key in loaded if key[0] == new.hash)[1:-1]  # the engine keeps one of two equal attempts
    for key, row in loaded.items():
        # The loader removes HandlerActionType. from actions. In events, stg_cirislens__covenant_traces removes it.
        action = put_together[key]["selected_action"].removeprefix("HandlerActionType.")
        issues = ["several_action_results"] if key in several else None
        assert put_together[key] | {"selected_action": action} == row | replayed(row) | {"event_issues": issues}
    *of_old, twice = ([loaded[key] for key in sorted(loaded) if key[0] == agent.hash] for agent in agents)
    for measured, zero in of_old:
        assert (measured["idma_k_eff"], measured["idma_fragility_flag"]) == (Decimal("2.5"), False)
        levels = (measured["idma_phase"], measured["entropy_level"], measured["coherence_level"])
        assert levels == ("healthy", Decimal("0.1"), Decimal("0.9"))
        assert measured["agent_name"] == "Probe" and zero["entropy_level"] is None
    assert [row["action_was_overridden"] for row in twice] == [True, False, False, False, False]
    assert {(row["action_success"], row["coherence_level"]) for row in twice} == {(True, Decimal("0.9"))}
    assert our_columns <= columns and our_indexes <= indexes and len(our_indexes) == 3


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
    """Write the events of a trace, a second apart.

    :param payloads: payloads that replace those of WHOLE, by event type. A list has one payload for each attempt. If
        the payload is None, no event is written.
    """
    events = []
    for second, (event_type, payload) in enumerate({**WHOLE, **payloads}.items(), 1):
        for attempt, sent in enumerate(payload if isinstance(payload, list) else [payload]):
            at = START + timedelta(minutes=minute, seconds=second + 10 * attempt)
            events.append((trace_id, event_type, attempt, at, agent, sent))
    insert_events(connection, [event for event in events if event[-1] is not None])


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
"""Day from which each key of KEYS is invalid: its earliest expiry or revocation in either registry."""


def test_malformed_events_are_counted_and_do_not_stop_a_run(database: Database) -> None:
    with database.connect() as connection:
        create_engine_tables(connection)
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
        write(connection, "shared", 5, OTHER, ACTION_RESULT=None, THOUGHT_START=None, LLM_CALL={"model": "mock"})
        write(connection, "nobody", 6, None)
        write(connection, "entropy not measured", 7, CONSCIENCE_RESULT={"entropy_level": 0.0})
        write(connection, "of other types", 8, **dict.fromkeys(WHOLE), VERB_SECOND_PASS_RESULT={})
        write(connection, "many digits", 9, DMA_RESULTS={"csdma": {"plausibility_score": 10**400}})
        write(connection, "called a mock", 10, LLM_CALL=[{"model": "MOCK"}, {"model": 7}, {"model": "m"}])
        write(connection, "used a mock", 11, ACTION_RESULT={"success": True, "models_used": ["m", "a mock"]})
        write(connection, "deployed", 12)
        connection.execute(
            "update cirislens.trace_events set deployment_type = ' Battery' where trace_id = 'deployed'"
            " and event_type = 'THOUGHT_START'"
        )
        as_of = ("--vars", "{ciris_as_of: 2026-06-11}")
        checked = json.loads(command(database, "check", "--json", *as_of).stdout)["run"]
        assert checked["traces"] == {"production": 8, "mock": 2, "test": 1}
        score(database.profiles_dir, START.replace(day=11, hour=0))
        traces = columns_of(connection, PUT_TOGETHER)
        kinds = {key: row["run_kind"] for key, row in traces.items() if row["run_kind"] != "production"}
        assert kinds == {
            (AGENT, "called a mock"): "mock", (AGENT, "used a mock"): "mock", (OTHER, "shared"): "mock",
            (AGENT, "deployed"): "test",
        }  # fmt: skip
        issues = {key[1]: row["event_issues"] for key, row in traces.items() if key[0] != OTHER and row["event_issues"]}
        assert len(traces) == 13 and issues == {
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
        assert traces[AGENT, "whole"]["timestamp"] == START + timedelta(seconds=7)
        assert traces[AGENT, "no outcome"]["timestamp"] == START + timedelta(minutes=1, seconds=6)
        assert traces[AGENT, "entropy not measured"]["entropy_level"] is None
        both = traces[AGENT, "two outcomes"]
        assert (both["audit_sequence_number"], both["action_success"]) == (3, True)
        assert float(both["csdma_plausibility_score"]) == 0.46
        half = traces[OTHER, "shared"]
        assert half["event_issues"] == ["no_action_result", "trace_id_of_two_agents"]
        query = f"select issue, sum(n)::integer from {SCHEMA}.fct_data_quality group by 1"
        counted = dict(connection.execute(query).fetchall())
        assert counted == {
            "no_action_result": 2, "several_action_results": 1, "trace_id_of_two_agents": 2,
            "mock_trace": 3, "test_trace": 1,
            "blank_agent_id_hash": 1, "out_of_range_csdma_plausibility_score": 1,
            "unreadable_thought_start": 1, "unreadable_dma_results": 1, "unreadable_idma_result": 1,
            **dict.fromkeys(issues["wrong types"], 1),
        }  # fmt: skip
        keys = connection.execute(
            "select key_id, least(min(revoked_at), min(expires_at))"
            f" from {SCHEMA}_staging.stg_cirislens__covenant_public_keys group by 1"
        )
        assert {key: end and f"{end.astimezone(UTC):%Y-%m-%d}" for key, end in keys} == ENDS_OF_KEYS


# --- choice of the source format --------------------------------------------------------------------------------------


def test_variable_chooses_between_two_source_formats(database: Database) -> None:

    with database.connect() as connection:
        create_loose_sources(connection)
        write_as_events(connection)
        said = command(database, "check").output
        assert "covenant_traces: " in said
        assert "Both cirislens.covenant_traces and cirislens.trace_events exist" in said
        of_events = command(database, "check", "--json", "--vars", json.dumps(AS_EVENTS))
        assert '"source_shape": "events"' in of_events.output
        connection.execute(
            "drop table cirislens.covenant_traces, cirislens.wbd_deferrals cascade;"
            "alter table cirislens.trace_events drop payload"
        )
        result = command(database, "check")
        assert result.exit_code == 1 and "trace_events has no column payload" in result.output
        assert "trace_events: " in result.output
        assert "There is no cirislens.wbd_deferrals, so no deferral is known" in result.output
