"""Tests of the changes to dbt in this process: they change no result, and each can be switched off."""

from __future__ import annotations

import marshal
import os
import re
from datetime import datetime, timedelta
from pathlib import Path

import agate
import parsedatetime
import psycopg2
import pytest
from dbt.events.types import NodeFinished, NodeStart
from dbt_common.clients import jinja
from dbt_common.events.event_manager_client import get_event_manager
from google.protobuf.json_format import ParseDict
from mashumaro.config import BaseConfig

from ciris_scoring.basics import dbt_patches, dbt_templates
from ciris_scoring.basics.dbt_sessions import DbtSessions
from ciris_scoring.basics.dbt_templates import FILE
from ciris_scoring.lab import embedded
from ciris_scoring.lab.simulation.sample import SAMPLE
from command_line import PROGRAMS, at, printed
from conftest import Database, copy_of
from pipeline import MARTS, score, table_differences

NODE = {"node_info": {"node_name": "int_runs"}}
TEMPLATE = "{% set n = 21 %}{{ n * 2 }}"


@pytest.mark.slow
def test_run_without_patches_writes_the_same_rows(sample_copy: Database) -> None:
    """The sample was scored with all patches, in the process of the tests."""
    embedded.write_profile(sample_copy.profiles_dir, sample_copy.server, database=sample_copy.name, schema="unpatched")
    printed(
        *(PROGRAMS / "ciris-scoring", "run", *at(sample_copy), "--as-of", SAMPLE["as_of"]),
        env={**os.environ, dbt_patches.SWITCH: "none"},
    )
    with sample_copy.connect() as connection:
        assert table_differences(connection, MARTS.marts_schema, "unpatched") == []


def test_increment_opens_few_sessions_and_sends_few_statements(scored_sample: Database, tmp_path: Path) -> None:
    """The limits are those of docs/measuring.md. Each query for what the run waits for depends on the time it takes."""
    day = datetime.fromisoformat(SAMPLE["as_of"])
    with copy_of(scored_sample, tmp_path) as database:
        [(folder,)] = database.execute("show data_directory")
        log = Path(folder, "log")
        score(database.profiles_dir, day + timedelta(days=1))  # builds the static nodes for the name of the copy
        before = log.stat().st_size
        database.execute(f"alter database {database.name} set log_statement = 'all'")
        score(database.profiles_dir, day + timedelta(days=2))
    with log.open() as file:
        file.seek(before)
        sent = re.findall(r"^.* \[(\d+)\] LOG:  (?:statement|execute [^:]*): (.*\n.*)", file.read(), re.MULTILINE)
    statements = [text for _, text in sent if "waiting.pid" not in text]
    assert 200 < len(statements) <= 350
    assert 5 < len({pid for pid, _ in sent}) <= 20


def test_patch_needs_its_dbt_version_and_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(map(dbt_patches.is_applied, dbt_patches.PATCHES))
    monkeypatch.setenv(dbt_patches.SWITCH, "templates, events")
    assert [n for n in dbt_patches.PATCHES if dbt_patches.is_applied(n)] == ["templates", "events"]
    monkeypatch.setenv(dbt_patches.SWITCH, "none")
    assert not any(map(dbt_patches.is_applied, dbt_patches.PATCHES))
    monkeypatch.delenv(dbt_patches.SWITCH)
    monkeypatch.setattr(dbt_patches, "version", lambda _: "1.12.0")
    assert not any(map(dbt_patches.is_applied, dbt_patches.PATCHES))


def test_mashumaro_compiles_classes_at_their_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BaseConfig, "lazy_compilation", False)
    dbt_patches.before_import.__wrapped__()
    assert BaseConfig.lazy_compilation


def test_calendar_is_created_once_and_reads_the_same_dates() -> None:
    dbt_patches.keep_calendars()
    one, other = agate.Date(), agate.DateTime()
    assert one._constants is other._constants is parsedatetime.Constants(localeID=None)
    assert one.cast("June 14, 2026").isoformat() == "2026-06-14"
    assert other.cast("2026-06-14 08:30").isoformat() == "2026-06-14T08:30:00"


def test_late_message_of_an_event_is_the_same() -> None:
    dbt_patches._create_messages_late()
    event = NodeStart(**NODE)
    assert "pb_msg" not in vars(event)
    assert event.pb_msg == ParseDict(NODE, NodeStart.PROTO_TYPES_MODULE.NodeStart())
    assert event.to_dict()["node_info"]["node_name"] == "int_runs"
    changed = NodeStart(**NODE)
    changed.node_info.node_name = "int_windows"
    assert (event.node_info.node_name, changed.node_info.node_name) == ("int_runs", "int_windows")
    with pytest.raises(AttributeError):
        _ = event.no_such_field


def test_only_debug_events_for_progress_are_passed_on() -> None:
    dbt_patches.leave_out_debug_messages()
    seen: list[str] = []
    manager = get_event_manager()
    manager.add_callback(lambda message: seen.append(message.info.name))
    manager.fire_event(NodeStart(**NODE))
    manager.fire_event(NodeFinished(**NODE))
    assert seen == ["NodeFinished"]


# --- compiled templates ----------------------------------------------------------------------------------------------


@pytest.fixture
def empty_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the compiled templates of this process during the test."""
    monkeypatch.setattr(dbt_templates, "_compiled", {})
    monkeypatch.setattr(dbt_templates, "_known", {})


def rendered() -> str:
    return jinja.get_template(TEMPLATE, {}).render({})


def in_new_process(monkeypatch: pytest.MonkeyPatch, folder: Path) -> int:
    """Load the file of a folder into an empty memory, and return the number of its templates."""
    monkeypatch.setattr(dbt_templates, "_compiled", {})
    monkeypatch.setattr(dbt_templates, "_known", {})
    dbt_templates.load(folder)
    return len(dbt_templates._compiled)


@pytest.mark.usefixtures("empty_memory")
def test_template_from_the_file_renders_the_same_text(tmp_path, monkeypatch) -> None:
    dbt_patches.keep_templates()
    assert rendered() == "42"
    dbt_templates.save(tmp_path)
    assert in_new_process(monkeypatch, tmp_path) == 1
    # Compiling fails, so the template comes from the file.
    monkeypatch.setattr(jinja.MacroFuzzEnvironment, "_generate", None)
    assert rendered() == "42"
    # The same text is another template in an environment that keeps Python's types.
    with pytest.raises(Exception, match="not callable"):
        jinja.get_template(TEMPLATE, {}, native=True)


@pytest.mark.usefixtures("empty_memory")
def test_file_of_somebody_else_or_of_another_version_is_not_read(tmp_path, monkeypatch) -> None:
    dbt_patches.keep_templates()
    rendered()
    dbt_templates.save(tmp_path)
    file = tmp_path / FILE
    content = file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o620)
    assert in_new_process(monkeypatch, tmp_path) == 0
    file.chmod(0o600)
    for other in (b"", content[:-9], b"0" * 32 + content[32:], content[:32] + marshal.dumps(7)[:-1]):
        file.write_bytes(other)
        assert in_new_process(monkeypatch, tmp_path) == 0
    file.write_bytes(content)
    assert in_new_process(monkeypatch, tmp_path) == 1


# --- sessions --------------------------------------------------------------------------------------------------------


class Opened:
    """Connection of dbt with a session that it has just opened."""

    state, transaction_open = "open", False

    def __init__(self, database: Database):
        self.handle = psycopg2.connect(database.conninfo)
        self.credentials = type("Credentials", (), {"role": None})

    def query(self, text: str) -> str:
        with self.handle.cursor() as cursor:
            cursor.execute(text)
            return str(cursor.fetchone()[0])


def test_kept_session_is_like_a_new_one(database: Database) -> None:
    sessions = DbtSessions({"work_mem": "5MB"})
    first = Opened(database)
    sessions.prepare(first, is_ours=True)
    pid = first.query("select pg_backend_pid()")
    first.query("create temporary table left_over as select 1; set enable_seqscan to off; select 1")
    first.handle.commit()
    first.query("set datestyle to 'SQL'; select 1")
    assert sessions.keep(first)
    second = Opened(database)
    second.handle.close()
    assert sessions.reuse(second)
    assert second.query("select pg_backend_pid()") == pid
    assert second.query("select to_regclass('pg_temp.left_over') is null") == "True"
    for setting, value in {
        "enable_seqscan": "on", "datestyle": "ISO, MDY", "work_mem": "5MB", "search_path": "pg_catalog, pg_temp",
    }.items():  # fmt: skip
        assert second.query(f"show {setting}") == value
    assert not sessions.reuse(Opened(database))
    assert sessions.keep(second)
    sessions.close()
    assert second.handle is None


def test_session_of_other_projects_or_that_the_server_ended_is_not_reused(database: Database) -> None:
    sessions = DbtSessions({})
    hooks = Opened(database)
    sessions.prepare(hooks, is_ours=False)
    assert hooks.query("show search_path") != "pg_catalog, pg_temp"
    assert not sessions.keep(hooks)
    ended = Opened(database)
    sessions.prepare(ended, is_ours=True)
    pid = ended.query("select pg_backend_pid()")
    assert sessions.keep(ended)
    database.execute("select pg_terminate_backend(%s)", [int(pid)])
    assert not sessions.reuse(Opened(database))
    broken = Opened(database)
    sessions.prepare(broken, is_ours=True)
    pid = broken.query("select pg_backend_pid()")  # begins a transaction
    database.execute("select pg_terminate_backend(%s)", [int(pid)])
    assert not sessions.keep(broken)
