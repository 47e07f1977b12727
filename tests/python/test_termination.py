"""Tests of SIGTERM, by which schedulers end a command, and Ctrl-C. The command must end soon, with a message and no
warning."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ciris_scoring.lab.simulation.sample import SAMPLE
from command_line import at, invoke
from conftest import Database, copy_of
from signed_batches import Agent, batch


def ended(command: list[str], after: str, code: str = "", number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
    """Send a signal to a command after a line of output with the text ``after``. Return its exit code and output.

    :param code: Python code that runs before the command.
    """
    program = [sys.executable, "-c", f"{code}\nfrom ciris_scoring.cli.commands import main; main()"]
    with subprocess.Popen(
        [*program, *command], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        said = ""
        for line in process.stderr:
            said += line
            if after in line:
                process.send_signal(number)
                break
        said += process.communicate(timeout=300)[1]
    assert after in said, said
    assert "resource_tracker" not in said and "Traceback" not in said, said
    return process.returncode, said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_run_is_unfinished_in_the_log(scored_sample: Database, tmp_path: Path, number: signal.Signals):
    with copy_of(scored_sample, tmp_path) as database:
        run = ["run", *at(database), "--as-of", SAMPLE["as_of"], "--full-refresh", "--allow-rescoring"]
        code, said = ended(run, "model int_trace_checks", number=number)
        assert code == 130 and said.endswith("Interrupted.\n"), said
        assert "ERROR" not in said and "server closed" not in said, said
        with database.connect() as connection:
            log = "select outcome from ciris.fct_scoring_runs order by started_at desc limit 1"
            assert connection.execute(log).fetchone() == ("unfinished",)
            # A backend ends soon after its client. Autovacuum may work.
            at_work = """
                select count(*) from pg_stat_activity
                where
                    datname = %s and pid <> pg_backend_pid()
                    and state = 'active' and backend_type = 'client backend'"""
            assert connection.execute(at_work, [database.name]).fetchone() == (0,)


def test_an_interrupted_load_by_several_processes_can_be_repeated(database: Database, tmp_path: Path):
    agent = Agent()
    for number in range(20):
        (tmp_path / f"{number}.json").write_text(json.dumps(batch(agent.trace() for _ in range(5))))
    waits_for_the_signal = """
import signal
from ciris_scoring.audit import load
load.CHUNK_DOCUMENTS, load.processors = 1, lambda: 2
chunks = load.read_all


def paused(*arguments):
    for number, chunk in enumerate(chunks(*arguments)):
        if number == 3:
            load.say("a chunk is loaded")
            signal.pause()
        yield chunk


load.read_all = paused
"""
    code, said = ended(["load", str(tmp_path), *at(database)], "a chunk is loaded", waits_for_the_signal)
    assert code == 130 and said.endswith("Interrupted.\n"), said
    again = invoke("load", tmp_path, *at(database))
    assert "100 traces" in again.output and "sent again" in again.output
    with database.connect() as connection:
        assert connection.execute("select count(*) from cirislens.covenant_traces").fetchone() == (100,)


def test_a_server_ends_with_exit_code_0(scored_sample: Database):
    assert ended(["serve", "--port", "0", *at(scored_sample)], "Serving ")[0] == 0
