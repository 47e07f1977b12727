"""The fleet simulator, the shipped sample, and their way into the source tables."""

import gzip
import hashlib
import json
import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import pandas as pd
import psycopg
import pytest
from psycopg import sql

from ciris_scoring.basics.errors import InputError
from ciris_scoring.basics.source_schema import SOURCE_TABLES, create_source_tables
from ciris_scoring.trial import simulation
from ciris_scoring.trial.simulation import PATHOLOGIES, Fleet, fleet_roster, simulate_fleet, stream_fleet
from ciris_scoring.trial.simulation.load import TargetHoldsTraces, load_fleet
from ciris_scoring.trial.simulation.sample import SAMPLE, load_sample, sample_info, write_sample
from ciris_scoring.trial.simulation.text_formats import csv_text

END = datetime(2026, 6, 15, tzinfo=UTC)
AGENTS, DAYS, PER_DAY, SEED = 14, 45, 21, 7
SMALL = {"agents": 5, "days": 9, "traces_per_day": 10, "seed": 3, "end": END}
WEEK = timedelta(days=7)


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return simulate_fleet(AGENTS, DAYS, PER_DAY, SEED, END)


@pytest.fixture(scope="module")
def lives(fleet: Fleet) -> dict[str, pd.DataFrame]:
    """Per pathology (the first healthy agent), its traces in order, repeated deliveries set aside."""
    roster = fleet_roster(AGENTS, SEED).drop_duplicates("pathology").set_index("pathology")
    traces = fleet.traces.sort_values("timestamp", kind="stable")
    traces = traces[~(traces.duplicated(["trace_id", "audit_sequence_number"]) & (traces.trace_id != ""))]
    numeric = ["csdma_plausibility_score", "dsdma_domain_alignment", "entropy_level", "coherence_level"]
    scores = traces[numeric].astype(float)
    traces[numeric] = scores.where((scores >= 0) & (scores <= 1))
    return {
        pathology: traces[traces.agent_id_hash == agent_id_hash].reset_index(drop=True)
        for pathology, agent_id_hash in roster.agent_id_hash.items()
    }


@pytest.fixture
def pg_connection(database) -> Iterator[psycopg.Connection]:
    with database.connect() as connection:
        yield connection


def last_week(life: pd.DataFrame) -> pd.DataFrame:
    return life[life.timestamp >= END - WEEK]


# --- the same arguments, the same bytes ---------------------------------------------------------------------


def test_same_arguments_give_the_same_fleet_and_another_seed_another_one() -> None:
    first, second = simulate_fleet(**SMALL), simulate_fleet(**SMALL)
    other = simulate_fleet(**{**SMALL, "seed": 4})
    for table in ("traces", "deferrals", "public_keys", "batches"):
        pd.testing.assert_frame_equal(getattr(first, table), getattr(second, table))
    assert not set(first.traces.trace_id) & set(other.traces.trace_id) - {""}
    assert not set(first.traces.agent_id_hash) & set(other.traces.agent_id_hash)


def test_the_generator_is_pinned() -> None:
    # A changed digest means that every simulated fleet of a seed changes, the shipped sample included.
    content = csv_text(simulate_fleet(**SMALL).traces)
    assert hashlib.sha256(content.encode()).hexdigest()[:16] == "d93fa6c79154ce3b"


@pytest.mark.parametrize("rows_per_chunk", [1, 120, 10**9])
def test_chunks_do_not_change_the_rows(rows_per_chunk: int) -> None:
    chunks = list(stream_fleet(**SMALL, rows_per_chunk=rows_per_chunk).traces)
    whole = simulate_fleet(**SMALL).traces
    pd.testing.assert_frame_equal(pd.concat(chunks, ignore_index=True), whole)
    assert len(chunks) == {1: 9, 10**9: 1}.get(rows_per_chunk, len(chunks))
    assert rows_per_chunk != 120 or 1 < len(chunks) < 9


def test_an_agent_does_not_depend_on_the_others() -> None:
    whole = simulate_fleet(**SMALL).traces
    fewer = simulate_fleet(**{**SMALL, "agents": 3}).traces
    kept = whole[whole.agent_id_hash.isin(fewer.agent_id_hash)].reset_index(drop=True)
    pd.testing.assert_frame_equal(kept, fewer)


@pytest.mark.parametrize(
    "change",
    [
        {"agents": 0},
        {"days": 0},
        {"traces_per_day": 0},
        {"traces_per_day": math.nan},
        {"seed": -1},
        {"end": datetime(2026, 6, 15)},
        {"end": END + timedelta(minutes=1)},
    ],
)
def test_arguments_out_of_range_are_refused_before_anything_is_made(change: dict) -> None:
    for function in (simulate_fleet, stream_fleet):
        with pytest.raises(InputError):
            function(**{**SMALL, **change})


@pytest.mark.parametrize("days", [1, 3, 8])
def test_short_fleets_of_every_kind_stay_inside_their_time(days: int) -> None:
    end = END + timedelta(hours=5)
    traces = simulate_fleet(len(PATHOLOGIES), days, 9, 1, end).traces
    assert traces.agent_id_hash.nunique() == len(PATHOLOGIES)
    assert traces.timestamp.min() >= end - timedelta(days=days)
    assert traces.timestamp.max() < end


# --- what the fleet is made of ------------------------------------------------------------------------------


def test_twelve_agents_show_every_named_pathology() -> None:
    assert list(fleet_roster(12, SEED).pathology) == [
        "healthy", "healthy", "drifting", "broken_chain", "revoked_key", "stuck_fragile",
        "relapsing", "overconfident", "renamed", "new", "silent", "contradictory",
    ]  # fmt: skip
    assert list(fleet_roster(30, SEED).pathology[14:16]) == ["healthy", "healthy"]


def test_traces_are_as_many_as_asked_for_and_interleaved_in_time(fleet: Fleet) -> None:
    traces = fleet.traces
    usual = traces[~traces.agent_id_hash.isin(fleet_roster(AGENTS, SEED).agent_id_hash[[9, 10]])]
    assert len(usual) / (12 * DAYS) == pytest.approx(PER_DAY, rel=0.05)
    assert (traces.timestamp.dt.floor("D").diff() < timedelta(0)).mean() < 0.005
    # Physical order: agents take turns task by task, and time hardly ever runs back.
    assert (traces.agent_id_hash != traces.agent_id_hash.shift()).mean() > 0.4
    assert (traces.timestamp.diff() < timedelta(0)).mean() < 0.005
    assert traces.timestamp.dt.hour.between(8, 17).mean() > 0.6


def test_a_healthy_agent_is_sound(lives: dict[str, pd.DataFrame]) -> None:
    life = lives["healthy"]
    assert list(life.audit_sequence_number) == list(range(1, len(life) + 1))
    assert life.signature_verified.mean() > 0.99
    assert life.action_was_overridden.mean() < 0.02
    assert life.idma_fragility_flag.mean() < 0.02
    assert life.agent_name.replace("  ", None).dropna().unique().tolist() == ["Harbor"]
    assert abs(life.csdma_plausibility_score.mean() - life.action_success.mean()) < 0.04
    assert contradictions(life).mean() == 0


def test_success_goes_with_plausibility(fleet: Fleet) -> None:
    score = fleet.traces.csdma_plausibility_score.astype(float)
    success = fleet.traces.action_success
    assert success[score >= 0.85].mean() > success[score < 0.75].mean() + 0.05


def test_drifting(lives: dict[str, pd.DataFrame]) -> None:
    life = lives["drifting"]
    before, after = (life[life.timestamp < END - timedelta(days=10)], last_week(life))
    for metric in ("csdma_plausibility_score", "dsdma_domain_alignment", "coherence_level"):
        assert before[metric].mean() - after[metric].mean() > 0.05
        healthy = lives["healthy"]
        assert abs(healthy[metric].mean() - last_week(healthy)[metric].mean()) < 0.02


def test_broken_chain_has_gaps_rewinds_and_repeats_in_the_last_week(lives: dict[str, pd.DataFrame]) -> None:
    steps = last_week(lives["broken_chain"]).audit_sequence_number.diff().dropna()
    assert (steps > 1).any() and (steps < 0).any() and (steps == 0).any()
    for pathology, life in lives.items():
        if pathology != "broken_chain":
            assert (life.audit_sequence_number.diff().dropna() == 1).all(), pathology


def test_revoked_key(fleet: Fleet, lives: dict[str, pd.DataFrame]) -> None:
    keys = fleet.public_keys.set_index("key_id")
    assert set(fleet.traces.signature_key_id) == set(keys.index)
    assert keys.revoked_at.notna().sum() == 1
    life = lives["revoked_key"]
    revoked_at = keys.revoked_at[life.signature_key_id[0]]
    assert revoked_at == END - timedelta(days=15)
    assert (life.timestamp >= revoked_at).mean() == pytest.approx(1 / 3, abs=0.05)


def test_stuck_fragile_never_recovers(lives: dict[str, pd.DataFrame]) -> None:
    life = lives["stuck_fragile"]
    stuck = life[life.timestamp >= END - timedelta(days=6)]
    assert stuck.idma_fragility_flag.dropna().all()
    assert not life[life.timestamp < END - timedelta(days=6)].idma_fragility_flag.iloc[-1]


def test_relapsing_repeats_one_failure_mode(lives: dict[str, pd.DataFrame]) -> None:
    def detections(life: pd.DataFrame) -> pd.Series:
        flags = last_week(life)[["idma_fragility_flag", "idma_phase"]].dropna()
        fragile = flags.idma_fragility_flag.astype(bool)
        return flags.idma_phase[fragile & ~fragile.shift(fill_value=False)].replace("", "unknown")

    modes = detections(lives["relapsing"])
    assert len(modes) >= 4 and modes.value_counts().max() >= 4
    assert len(detections(lives["healthy"])) <= 2


def test_overconfident(lives: dict[str, pd.DataFrame]) -> None:
    life = lives["overconfident"]
    assert life.csdma_plausibility_score.mean() > 0.9
    assert life.action_success.mean() < 0.65


def test_renamed_midway_and_at_the_first_trace_of_the_window(lives: dict[str, pd.DataFrame]) -> None:
    life = lives["renamed"][["timestamp", "agent_name"]].replace("  ", None).dropna()
    changes = life[life.agent_name != life.agent_name.shift()].iloc[1:]
    assert list(changes.agent_name) == ["Proteus", "Morpheus"]
    assert changes.timestamp.iloc[0] - (END - timedelta(days=DAYS / 2)) < timedelta(days=1)
    assert changes.timestamp.iloc[1] == life.timestamp[life.timestamp >= END - WEEK].iloc[0]
    assert life.agent_name.iloc[0] == PATHOLOGIES[1].names[0]  # borne by another agent, too


def test_new_and_silent(lives: dict[str, pd.DataFrame]) -> None:
    assert END - timedelta(days=5) <= lives["new"].timestamp.min() < END - timedelta(days=4)
    silent = lives["silent"].timestamp
    assert silent.max() < END - timedelta(days=3)
    assert (silent >= END - timedelta(days=9)).sum() >= 30


def test_contradictory(lives: dict[str, pd.DataFrame]) -> None:
    life = lives["contradictory"]
    assert life.action_was_overridden.mean() > 0.05
    assert life.signature.isna().mean() > 0.02
    assert (life.signature_verified.isna() == life.signature.isna()).all()
    assert (life.signature_verified == False).mean() > 0.04  # noqa: E712


def test_out_of_tune(lives: dict[str, pd.DataFrame]) -> None:
    assert lives["healthy"].coherence_level.mean() - lives["out_of_tune"].coherence_level.mean() > 0.1


def test_only_the_unreplayable_agent_contradicts_itself(lives: dict[str, pd.DataFrame]) -> None:
    shares = {pathology: contradictions(life).mean() for pathology, life in lives.items()}
    assert shares.pop("unreplayable") == pytest.approx(0.05, abs=0.02)
    assert set(shares.values()) == {0}


def contradictions(life: pd.DataFrame) -> pd.Series:
    """Whether a recorded decision differs from what its recorded inputs give, or from the columns."""

    def contradicts(row) -> bool:
        if row.thought_start is None:
            return False
        dma, conscience, action = (
            json.loads(text, parse_float=Decimal)
            for text in (row.dma_results, row.conscience_result, row.action_result)
        )
        verdicts = [conscience[key] for key in conscience if re.fullmatch(".*(?<!conscience)_passed", key)]
        comparisons = [
            conscience["conscience_passed"] == (all(verdicts) if verdicts else True),
            row.conscience_passed == conscience["conscience_passed"],
            row.action_was_overridden == conscience["action_was_overridden"],
            row.action_success == action["execution_success"] == (not action["has_execution_error"]),
            row.audit_sequence_number == action["audit_sequence_number"],
            row.audit_entry_hash == action["audit_entry_hash"],
        ]
        if "entropy_passed" in conscience:
            passed = conscience["entropy_score"] <= conscience["entropy_threshold"]
            comparisons.append(conscience["entropy_passed"] == passed)
        if "coherence_passed" in conscience:
            passed = conscience["coherence_score"] >= conscience["coherence_threshold"]
            comparisons.append(row.coherence_passed == conscience["coherence_passed"] == passed)
        for column, recorded, places in (
            (row.csdma_plausibility_score, dma["csdma"]["plausibility_score"], "0.01"),
            (row.dsdma_domain_alignment, dma["dsdma"]["domain_alignment"], "0.01"),
            (row.entropy_level, conscience["entropy_level"], "0.0001"),
            (row.coherence_level, conscience["coherence_level"], "0.0001"),
        ):
            if not math.isnan(column):
                rounded = recorded.quantize(Decimal(places), ROUND_HALF_UP)
                comparisons.append(Decimal(str(column)) == rounded)
        return not all(comparisons)

    return pd.Series([contradicts(row) for row in life.itertuples()])


def test_fields_are_null_by_design(fleet: Fleet) -> None:
    traces = fleet.traces[fleet.traces.selected_action.str.startswith("HandlerActionType.")]
    action = traces.selected_action.str.removeprefix("HandlerActionType.")
    assert (traces.coherence_passed.notna() == action.isin(["SPEAK", "TOOL", "DEFER"])).all()
    exempt = ["TASK_COMPLETE", "RECALL", "OBSERVE", "REJECT"]
    assert (traces.entropy_level.isna() == action.isin(exempt)).all()
    assert set(exempt) | {"SPEAK", "TOOL", "DEFER", "PONDER", "MEMORIZE", "FORGET"} == set(action)


def test_formats_are_those_of_agents(fleet: Fleet) -> None:
    traces = fleet.traces
    for column, pattern in {
        "trace_id": r"(trace-)?th_(seed|followup)_[0-9a-f]{8}_[0-9a-f]{8}-[0-9a-f]{3}(-\d{14})?|",
        "agent_id_hash": "[0-9a-f]{16}",
        "signature": "[A-Za-z0-9_-]{85}[AQgw]",
        "signature_key_id": "agent-[0-9a-f]{12}",
        "audit_entry_hash": "[0-9a-f]{64}",
        "csdma_plausibility_score": r"[01]\.\d\d|NaN|-0\.50",
        "coherence_level": r"[01]\.\d{4}|NaN|-0\.0500",
        "idma_phase": "healthy|rigidity|chaos|fragmentation|",
    }.items():
        assert traces[column].dropna().str.fullmatch(pattern).all(), column
    roster = fleet_roster(AGENTS, SEED)
    for agent_id, agent_id_hash in zip(roster.agent_id, roster.agent_id_hash, strict=True):
        assert hashlib.sha256(agent_id.encode()).hexdigest().startswith(agent_id_hash)


def test_some_traces_are_delivered_twice_hours_later(fleet: Fleet) -> None:
    traces = fleet.traces[fleet.traces.trace_id != ""]
    key = ["agent_id_hash", "trace_id", "audit_sequence_number"]
    again = traces[traces.duplicated(key, keep=False)].sort_values("timestamp").groupby(key)
    assert len(again) / len(traces) == pytest.approx(0.003, abs=0.0015)
    assert (again.timestamp.last() - again.timestamp.first()).min() >= timedelta(hours=1)
    assert again.signature.nunique().isin([0, 1, 2]).all() and (again.signature.nunique() == 2).any()
    # The same id as another audit entry is a reprocessed thought, not a repeated delivery.
    assert traces.groupby("trace_id").audit_sequence_number.nunique().max() == 2


def test_a_few_values_are_dirty(fleet: Fleet) -> None:
    columns = ["csdma_plausibility_score", "dsdma_domain_alignment", "entropy_level", "coherence_level"]
    values = fleet.traces[columns].stack().dropna()
    dirty = values[~values.astype(float).between(0, 1)]
    assert 0 < len(dirty) < 0.003 * len(values)
    assert "NaN" in set(dirty)
    texts = fleet.traces[["trace_id", "thought_id", "agent_name", "idma_phase", "selected_action"]].stack()
    assert 0 < (texts.str.strip() == "").sum() < 0.001 * len(texts)


def test_installations_with_a_batch_clock_have_ties(fleet: Fleet) -> None:
    times = fleet.traces.groupby("agent_id_hash").timestamp
    tied = 1 - times.nunique() / times.size()
    roster = fleet_roster(AGENTS, SEED).agent_id_hash
    assert tied[roster[1]] > 0.3
    assert tied.drop(roster[1]).max() == 0


def test_agents_share_their_hours(fleet: Fleet) -> None:
    agents = fleet.traces.groupby(fleet.traces.timestamp.dt.floor("h")).agent_id_hash.nunique()
    assert agents.median() >= 4


def test_deferrals_have_every_status_and_every_way_of_attribution(fleet: Fleet) -> None:
    deferrals, roster = fleet.deferrals, fleet_roster(AGENTS, SEED)
    assert set(deferrals.status) == {
        "RESOLVED", "ESCALATED", "REJECTED", "WITHDRAWN", "PENDING", "UNDER_REVIEW", " resolved ", "AUTO_CLOSED",
    }  # fmt: skip
    assert deferrals.agent_id.isin(roster.agent_id_hash).mean() > 0.3
    assert deferrals.agent_id.isin(roster.agent_id).mean() > 0.15
    assert (
        deferrals.agent_id[(~deferrals.agent_id.isin([*roster.agent_id_hash, *roster.agent_id]))]
        .isin(["unknown", "nobody-000000"])
        .all()
    )
    assert deferrals.created_at.isna().sum() == 1
    assert deferrals.deferral_id.is_unique
    assert (deferrals.resolved_at.dropna() < END).all()
    assert deferrals.resolved_at[deferrals.status.isin(["PENDING", "UNDER_REVIEW"])].isna().all()
    first_trace = fleet.traces.groupby("agent_id_hash").timestamp.min()
    known = deferrals[deferrals.agent_id.isin(roster.agent_id_hash) & deferrals.created_at.notna()]
    assert (known.created_at > known.agent_id.map(first_trace)).all()


def test_batches_add_up(fleet: Fleet) -> None:
    batches = fleet.batches
    assert (batches.traces_received == batches.traces_accepted + batches.traces_rejected).all()
    assert 0 < batches.traces_rejected.sum() < 0.02 * batches.traces_received.sum()
    deliveries = fleet.traces[~fleet.traces.duplicated(["trace_id", "audit_sequence_number"])]
    assert batches.traces_accepted.sum() == pytest.approx(len(deliveries), rel=0.002)
    rejected = [sum(json.loads(reasons).values()) for reasons in batches.rejection_reasons]
    assert rejected == list(batches.traces_rejected)


def test_wide_rows_differ_only_in_their_components() -> None:
    narrow, wide = simulate_fleet(**SMALL).traces, simulate_fleet(**SMALL, wide=True).traces
    components = ["dma_results", "action_result"]
    pd.testing.assert_frame_equal(narrow.drop(columns=components), wide.drop(columns=components))
    whole = narrow.thought_start.notna()
    for column in components:
        assert (wide[column][whole].str.len() > narrow[column][whole].str.len() + 40).all()
        wide[column][whole].map(json.loads)


# --- the database -------------------------------------------------------------------------------------------


def content(connection: psycopg.Connection, schema: str, table: str) -> tuple:
    """Number of rows, and a digest over all their values."""
    query = 'select count(*), md5(string_agg(t::text, chr(10) order by t::text collate "C")) from {} t'
    return connection.execute(sql.SQL(query).format(sql.Identifier(schema, table))).fetchone()


def test_source_tables_are_those_of_production(pg_connection: psycopg.Connection) -> None:
    create_source_tables(pg_connection)
    pg_connection.execute("insert into cirislens.covenant_public_keys (key_id) values ('kept')")
    create_source_tables(pg_connection)
    assert pg_connection.execute("select key_id from cirislens.covenant_public_keys").fetchall() == [
        ("kept",)
    ]
    columns = pg_connection.execute(
        "select attname, format_type(atttypid, atttypmod), attnotnull from pg_attribute"
        " where attrelid = 'cirislens.covenant_traces'::regclass and attnum > 0 order by attnum"
    ).fetchall()
    assert [name for name, *_ in columns] == list(SOURCE_TABLES["covenant_traces"].column_names)
    types = {name: declared for name, declared, _ in columns}
    assert types["trace_id"] == "character varying(128)"
    assert types["timestamp"] == "timestamp with time zone"
    assert types["csdma_plausibility_score"] == "numeric(3,2)"
    assert types["idma_k_eff"] == "numeric"
    assert types["action_result"] == "jsonb"
    assert {name for name, _, required in columns if required} == {"trace_id", "agent_id_hash", "timestamp"}
    indexes = pg_connection.execute(
        "select array_agg(a.attname::text order by k.i) from pg_index x"
        " cross join unnest(x.indkey::int[]) with ordinality k (attnum, i)"
        " join pg_attribute a on a.attrelid = x.indrelid and a.attnum = k.attnum"
        " where x.indrelid = 'cirislens.covenant_traces'::regclass group by x.indexrelid"
    ).fetchall()
    assert sorted(columns for (columns,) in indexes) == [
        ["agent_id_hash", "audit_sequence_number"],
        ["agent_id_hash", "timestamp"],
        ["timestamp"],
        ["trace_id", "timestamp"],
    ]


def test_tables_and_schema_may_have_other_names(pg_connection: psycopg.Connection) -> None:
    names = {"covenant_traces": 'accord "traces"', "wbd_deferrals": "select"}
    assert load_fleet(pg_connection, simulate_fleet(**SMALL), "My Lens", names) > 0
    tables = pg_connection.execute("select tablename from pg_tables where schemaname = 'My Lens'").fetchall()
    assert {name for (name,) in tables} == {
        'accord "traces"', "select", "covenant_public_keys", "covenant_trace_batches",
    }  # fmt: skip
    with pytest.raises(TargetHoldsTraces, match='My Lens.accord "traces"'):
        load_fleet(pg_connection, simulate_fleet(**SMALL), "My Lens", names)
    with pytest.raises(KeyError, match="traces"):
        create_source_tables(pg_connection, tables={"traces": "x"})


def test_a_stream_loads_what_the_fleet_holds(pg_connection: psycopg.Connection) -> None:
    whole = simulate_fleet(**SMALL, wide=True)
    seen = []
    n = load_fleet(pg_connection, whole, "whole")
    streamed = stream_fleet(**SMALL, wide=True, rows_per_chunk=100)
    create_source_tables(pg_connection, "streamed")  # so that one load creates its tables and one finds them
    assert (
        load_fleet(pg_connection, streamed, "streamed", progress=lambda *p: seen.append(p))
        == n
        == len(whole.traces)
    )
    for table in SOURCE_TABLES:
        assert content(pg_connection, "whole", table) == content(pg_connection, "streamed", table)
    assert seen == sorted(seen) and len(seen) > 2
    assert seen[-1] == (n, n)
    analyzed = "select reltuples from pg_class where oid = 'whole.covenant_traces'::regclass"
    assert pg_connection.execute(analyzed).fetchone() == (n,)


def test_values_arrive_as_they_are_in_the_frames(pg_connection: psycopg.Connection) -> None:
    awkward = 'a\\b\tc\nd"e,f\rg'
    made = simulate_fleet(**SMALL)
    made.traces.loc[0, ["agent_name", "idma_phase", "thought_id"]] = [awkward, "", None]
    load_fleet(pg_connection, made)
    row = made.traces.loc[0]
    got = pg_connection.execute(
        "select agent_name, idma_phase, thought_id, timestamp, csdma_plausibility_score::text, action_success,"
        " conscience_result from cirislens.covenant_traces where trace_id = %s",
        [row.trace_id],
    ).fetchone()
    assert got == (
        awkward, "", None, row.timestamp, row.csdma_plausibility_score, row.action_success,
        json.loads(row.conscience_result),
    )  # fmt: skip


def test_a_table_that_holds_traces_is_refused_before_anything_is_written(
    pg_connection: psycopg.Connection,
) -> None:
    load_fleet(pg_connection, simulate_fleet(**SMALL))
    pg_connection.execute("delete from cirislens.wbd_deferrals")
    n = pg_connection.execute("select count(*) from cirislens.covenant_traces").fetchone()[0]
    for load in (
        lambda: load_fleet(pg_connection, simulate_fleet(**SMALL)),
        lambda: load_sample(pg_connection),
    ):
        with pytest.raises(TargetHoldsTraces) as refusal:
            load()
        assert (refusal.value.table, refusal.value.n) == ("cirislens.covenant_traces", n)
    assert content(pg_connection, "cirislens", "wbd_deferrals")[0] == 0


def test_a_load_that_fails_leaves_nothing_behind(pg_connection: psycopg.Connection) -> None:
    broken = simulate_fleet(**SMALL)
    broken.traces.loc[len(broken.traces) - 1, "signature_key_id"] = "x" * 65
    with pytest.raises(psycopg.errors.StringDataRightTruncation):
        load_fleet(pg_connection, broken)
    assert pg_connection.execute("select to_regnamespace('cirislens')").fetchone() == (None,)


# --- the sample ---------------------------------------------------------------------------------------------


def test_the_sample_is_what_its_arguments_give(tmp_path: Path) -> None:
    write_sample(tmp_path)
    shipped = Path(simulation.__file__).parent / "sample_files"
    assert {path.name for path in shipped.iterdir()} == {path.name for path in tmp_path.iterdir()}
    for path in tmp_path.glob("*.gz"):
        # The content, not the file: another version of zlib may pack it differently.
        assert gzip.decompress(path.read_bytes()) == gzip.decompress((shipped / path.name).read_bytes())
    assert sample_info() == json.loads((tmp_path / "sample.json").read_text()) == SAMPLE
    assert sum(path.stat().st_size for path in shipped.iterdir()) < 3_000_000


def test_the_sample_loads_as_simulated(pg_connection: psycopg.Connection) -> None:
    arguments = sample_info()
    end = datetime.fromisoformat(arguments.pop("as_of"))
    n = load_sample(pg_connection, "from_files")
    assert n == load_fleet(pg_connection, simulate_fleet(**arguments, end=end), "simulated")
    for table in SOURCE_TABLES:
        assert content(pg_connection, "from_files", table) == content(pg_connection, "simulated", table)
