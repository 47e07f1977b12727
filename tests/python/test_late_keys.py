"""Tests of keys whose registration changes later: traces are counted while final scores depend on the earlier
registration, a run reports them, and the command that it names scores them again.
"""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import psycopg

from ciris_scoring.lab import embedded
from ciris_scoring.lab.embedded import SCHEMA
from conftest import Database
from nasty_fleet import START, nasty_fleet
from pipeline import insert_rows, load_rows, score, score_rows
from test_bad_input import run

DAY = timedelta(days=1)
DAYS = 45
NEWEST = START + DAYS * DAY
LOOKBACK = NEWEST - 4 * DAY  # the run continues from the previous as-of
REVOKED = START + 37 * DAY + timedelta(hours=7)
REFRESHED = "refreshed"

LATE = (
    "select agent_id_hash, period_start, n, first_as_of, last_as_of from {}.fct_data_quality where issue = %s"
)
OTHERWISE = """
select verdicts.agent_id_hash, verdicts.period_start, count(*)
from {schema}_intermediate.int_trace_checks as verdicts
join {other}_intermediate.int_trace_checks as anew using (traced_at, trace_check_id)
where verdicts.is_counted and verdicts.is_key_registered <> anew.is_key_registered and verdicts.traced_at < %s
group by 1, 2
"""


def late(connection: psycopg.Connection, issue: str) -> dict[tuple, tuple]:
    """Return the counts of an issue and the affected as-ofs by agent and period."""
    return {row[:2]: row[2:] for row in connection.execute(LATE.format(SCHEMA), [issue])}


def test_keys_that_change_in_hindsight_are_counted_until_a_rescore(
    database: Database, tmp_path: Path
) -> None:
    fleet = nasty_fleet(3, agents=4, days=DAYS, traces_per_day=6)
    traces = fleet.pop("covenant_traces")
    latecomer = next(row for row in traces if row["timestamp"] >= REVOKED + DAY and row["agent_id_hash"])
    embedded.write_profile(tmp_path, database.server, database=database.name, schema=REFRESHED)
    with database.connect() as connection:
        load_rows(connection, fleet)
        insert_rows(connection, "covenant_traces", [row for row in traces if row is not latecomer])
        score(database.profiles_dir, NEWEST - DAY)
        assert late(connection, "late_key") == {}

        # The key is revoked before the restatement window, no longer revoked, expired within the window, and deleted.
        for edit in (
            f"update cirislens.covenant_public_keys set revoked_at = '{REVOKED}' where key_id = 'key-0'",
            "update cirislens.covenant_public_keys set revoked_at = null where key_id = 'key-1'",
            f"update cirislens.covenant_public_keys set expires_at = '{LOOKBACK}' where key_id = 'key-2'",
            "delete from cirislens.covenant_public_keys where key_id = 'key-3'",
        ):
            connection.execute(edit)
        insert_rows(connection, "covenant_traces", [latecomer])
        result = run(database, as_of=NEWEST.isoformat())
        assert result.exit_code == 0, result.output
        assert re.search(r"WARN .* warn_late_traces_need_a_rescore", result.output)
        score(tmp_path, NEWEST)

        found = late(connection, "late_key")
        otherwise = connection.execute(OTHERWISE.format(schema=SCHEMA, other=REFRESHED), [LOOKBACK])
        expected = {row[:2]: row[2] for row in otherwise if row[1] >= LOOKBACK - 30 * DAY}
        assert {key: row[0] for key, row in found.items()} == expected
        assert len(expected) > 20
        assert {key: row[1:] for key, row in found.items()} == {
            (agent, period): (period + DAY, NEWEST) for agent, period in found
        }
        late_traces = late(connection, "late_trace")
        assert [row[0] for row in late_traces.values()] == [1]

        [(counts, command)] = re.findall(
            r"Note: the scores .* made now \((.*)\)\. .* again: ciris-scoring (run --from .*)", result.output
        )
        n_keys = sum(expected.values())
        assert counts == (
            "traces that came late: 1; traces with an outcome or another event that came late: 0; "
            f"traces whose key was changed in hindsight: {n_keys:,}"
        )
        first = min(period for _, period in found) + DAY
        command, *options = command.split()
        assert options[1::2] == [f"{t:%Y-%m-%dT%H:%M:%SZ}" for t in (first, NEWEST)]

        before = score_rows(connection, SCHEMA)
        again = run(database, *options, as_of=None, command=command)
        assert again.exit_code == 0, again.output
        assert late(connection, "late_key") == late(connection, "late_trace") == {}
        after, refreshed = score_rows(connection, SCHEMA), score_rows(connection, REFRESHED)
        inside = {key for key in refreshed if first <= key[1] <= NEWEST}
        assert {key: after[key] for key in inside} == {key: refreshed[key] for key in inside}
        assert {key: before[key] for key in inside} != {key: refreshed[key] for key in inside}

        result = run(database, as_of=NEWEST.isoformat())
        assert result.exit_code == 0, result.output
        assert "if they were made now" not in result.output
