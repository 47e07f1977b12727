"""A database that version 0.1.0 filled: the next run goes on from it, and what is published stays.

Its tables are made from today's: in 0.1.0 they had a surrogate key, no recoveries in the sums, no labels, and
neither episodes nor signs nor replays a model; histograms and calibration had tables of their own, which stay behind.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import psycopg

from ciris_scoring.trial import embedded
from ciris_scoring.trial.embedded import SCHEMA
from conftest import REPOSITORY, Database
from nasty_fleet import START, nasty_fleet
from pipeline import (
    create_loose_sources,
    differences_from_brute_force,
    insert_rows,
    mart_differences,
    score,
    score_rows,
)

SURROGATE_KEYS = {
    "int_agent_periods": "agent_period_id",
    "int_agent_hours": "agent_hour_id",
    "int_score_histograms": "score_histograms_id",
    "int_calibration_bins": "calibration_bins_id",
    "int_window_sums": "window_sums_id",
    "int_resilience_inputs": "resilience_inputs_id",
    "int_incompleteness_awareness": "incompleteness_awareness_id",
    "int_sustained_coherence": "sustained_coherence_id",
    "int_published_components": "published_components_id",
}


SINCE_IN_BOTH = (
    "n_recoveries|recovery_microseconds|.*_histogram|n_judged|n_trivial|n_renumbered|n_shared_key|n_new_keys"
    "|n_checked|n_unreported|n_contradicted"
)
SINCE = {
    "int_agent_periods": f"{SINCE_IN_BOTH}|.*_by_bin|log_.*|judged_keys|sums_hash",
    "int_window_sums": f"{SINCE_IN_BOTH}|excess_confidence|baseline_.*|coherence_days|memory_hash",
}
"""Columns of the sums that 0.1.0 did not have, as regular expressions."""


def make_old(connection: psycopg.Connection) -> None:
    """Turn the tables of a run into those that 0.1.0 would have left."""
    connection.execute(
        """
        set search_path to ciris_intermediate;
        create table int_score_histograms as
            select agent_id_hash, period_start, csdma_plausibility_score_histogram, dsdma_domain_alignment_histogram,
                coherence_level_histogram
            from int_agent_periods;
        create table int_calibration_bins as
            select agent_id_hash, period_start, n_judged, judged_by_bin as n_traces,
                confidence_by_bin as sum_confidence, successes_by_bin as n_successes
            from int_agent_periods;
        create table inputs as select * from int_resilience_inputs;
        drop view int_resilience_inputs cascade;
        alter table inputs rename to int_resilience_inputs
        """
    )
    for table, key in SURROGATE_KEYS.items():
        connection.execute(f"alter table {table} add {key} text")
    for table, names in SINCE.items():
        columns = connection.execute(
            "select attname from pg_attribute where attrelid = %s::regclass and attname ~ %s",
            [table, f"^({names})$"],
        )
        for (column,) in columns.fetchall():
            connection.execute(f"alter table {table} drop {column} cascade")
    connection.execute(
        """
        drop table int_window_episodes, int_agent_totals cascade;
        drop table ciris.fct_record_signs, int_record_signs, int_key_uses cascade;
        alter table int_trace_verdicts drop reporting cascade, drop key_hash cascade,
            add is_replayable boolean, add is_thought_start_recorded boolean, add replay_outcome text;
        update int_trace_verdicts as verdicts
        set is_replayable = replays.is_replayable, is_thought_start_recorded = replays.is_thought_start_recorded,
            replay_outcome = replays.replay_outcome
        from int_replays as replays
        where verdicts.trace_verdict_id = replays.trace_verdict_id and verdicts.traced_at = replays.traced_at;
        drop table int_replays cascade;
        drop table int_agents cascade;
        create view int_agents as select 'x' as agent_id_hash;
        drop view int_agent_names cascade;
        alter table ciris.fct_capacity_scores drop agent_label cascade;
        alter table ciris.dim_agents drop agent_label cascade, drop n_agents_of_name cascade;
        alter table ciris.fct_capacity_alerts drop agent_label cascade;
        alter table ciris.fct_data_quality drop first_as_of cascade, drop last_as_of cascade;
        drop table ciris.dim_days;
        alter table int_scoring_run drop longest_window cascade;
        alter table int_scoring_run rename newest_published_as_of to newest_scored_as_of;
        reset search_path
        """
    )


def unlabelled(scores: dict[tuple, dict[str, Any]]) -> dict[tuple, dict[str, Any]]:
    return {key: {**row, "agent_label": None} for key, row in scores.items()}


def label_statement() -> str:
    """What the changelog says to run, so that scores of 0.1.0 have a label too."""
    changelog = " ".join((REPOSITORY / "CHANGELOG.md").read_text("utf-8").split())
    [statement] = re.findall("`(update SCHEMA[^`]*)`", changelog)
    return statement.replace("SCHEMA", SCHEMA)


def test_a_run_goes_on_from_an_older_version(database: Database, tmp_path) -> None:
    before, as_of = START + timedelta(days=36), START + timedelta(days=38)
    with database.connect() as connection:
        create_loose_sources(connection)
        for table, rows in nasty_fleet(9, days=38, agents=5, traces_per_day=8).items():
            insert_rows(connection, table, rows)
        score(database.profiles_dir, before)
        published = unlabelled(score_rows(connection, SCHEMA))
        make_old(connection)

        # Of the oldest traces only the verdicts are left, and what those know of replay.
        connection.execute("create table older as table cirislens.covenant_traces with no data")
        connection.execute(
            "with gone as (delete from cirislens.covenant_traces where timestamp < %s returning *)"
            " insert into older table gone",
            [before - timedelta(days=20)],
        )
        published_until = connection.execute("select now()").fetchone()
        score(database.profiles_dir, as_of)
        connection.execute("insert into cirislens.covenant_traces table older")
        scores = unlabelled(score_rows(connection, SCHEMA))
        final = before - timedelta(days=3)
        assert published.items() >= {k: v for k, v in scores.items() if k[1] <= final}.items()
        assert {k for k in published if k[1] <= final} == {k for k in scores if k[1] <= final}
        made = f"select max(scored_at) from {SCHEMA}.fct_capacity_scores where as_of <= %s"
        assert connection.execute(made, [final]).fetchone() < published_until
        assert differences_from_brute_force(connection, SCHEMA, as_of) == []

        assert connection.execute(
            "select 1 from ciris.fct_capacity_scores where agent_label is null"
        ).fetchone()
        connection.execute(label_statement())
        fresh = tmp_path / "refreshed"
        fresh.mkdir()
        embedded.write_profile(fresh, database.server, database=database.name, schema="refreshed")
        score(fresh, as_of)
        totals = (
            "select agent_id_hash, period_start, n_traces, sums_hash from {}_intermediate.int_agent_totals"
        )
        built, fresh_ones = (
            set(connection.execute(totals.format(schema)).fetchall()) for schema in (SCHEMA, "refreshed")
        )
        assert built == fresh_ones
        # Signs begin with what the next run scores.
        different = mart_differences(connection, SCHEMA, "refreshed")
        assert [line for line in different if not line.startswith("fct_record_signs: ")] == []
        [[first]] = connection.execute(f"select min(as_of) from {SCHEMA}.fct_record_signs").fetchall()
        assert first > final
