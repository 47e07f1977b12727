"""The resilience step on a real database: what it writes, when, and what it leaves alone."""

import math
from collections.abc import Iterator

import psycopg
import pytest

from ciris_scoring.basics.errors import StepError
from ciris_scoring.steps.resilience_step import METRICS, run_step
from pipeline import relations

SCHEMA = "scores of 'Ägir'"  # an identifier that needs quoting
MARTS = relations(SCHEMA)
INTERMEDIATE = f'"{SCHEMA}_intermediate"'

TABLES = f"""
create schema {INTERMEDIATE};
set search_path to {INTERMEDIATE};
create table int_scoring_parameters (parameter_name text primary key, parameter_value text);
insert into int_scoring_parameters values
    ('drift_pseudo_count', '0.5'), ('drift_min_sample', '30'), ('mttr_scale_hours', '1'), ('norm_k', '5'),
    ('norm_x0', '0.5'), ('replay_sample_salt', null), ('min_traces', '30');
create table int_resilience_inputs (
    agent_id_hash text, as_of timestamptz, window_days integer,
    {", ".join(f"{metric}_{window} integer[]" for metric in METRICS for window in ("recent", "baseline"))},
    mttr_hours double precision, rho_regression double precision, inputs_digest text,
    step_parameters text default '0.5|30|1|5|0.5',
    unique (agent_id_hash, as_of, window_days)
);
create table int_resilience_scores (
    agent_id_hash text not null, as_of timestamptz not null, window_days integer not null, inputs_digest text,
    {", ".join(f"delta_{metric} double precision" for metric in METRICS)},
    delta_drift double precision not null, n_measured_metrics integer, r_score double precision not null,
    computed_at timestamptz, unique (agent_id_hash, as_of, window_days)
);
"""


def bins(**counts: int) -> list[int]:
    """A histogram from keywords such as ``bin9=30``."""
    return [counts.get(f"bin{i}", 0) for i in range(10)]


EMPTY = bins()
NO_DRIFT = [bins(bin9=30), bins(bin9=30)]


@pytest.fixture
def connection(every_database) -> Iterator[psycopg.Connection]:
    with every_database.connect() as connection:
        connection.execute(TABLES)
        yield connection


def add_input(
    connection: psycopg.Connection,
    agent: str = "agent",
    as_of: str = "2026-01-08",
    window_days: int = 7,
    histograms: list[list[int]] | None = None,
    mttr_hours: float | None = 0.0,
    rho: float = 0.0,
    digest: str | None = "digest",
) -> None:
    """One row of inputs; by default nothing drifts."""
    histograms = NO_DRIFT * 3 if histograms is None else histograms
    connection.execute(
        f"insert into int_resilience_inputs values ({', '.join(['%s'] * 12)})",
        [agent, f"{as_of}T00:00Z", window_days, *histograms, mttr_hours, rho, digest],
    )


def scores(connection: psycopg.Connection, columns: str = "agent_id_hash, r_score") -> list[tuple]:
    return connection.execute(f"select {columns} from int_resilience_scores order by 1, 2").fetchall()


def counts(connection: psycopg.Connection, **options) -> tuple[int, int, int]:
    """Run the step; return the rows that were waiting, written, deleted."""
    return tuple(run_step(connection, MARTS, **options)[:3])


def test_one_row_by_hand(connection):
    # Plausibility moved from bin 9 to bin 0: 1 - exp(-(30/35 ln 61 - 1/30)) = 0.969507448. Alignment has one value
    # too few, coherence did not move: the mean of two is 0.484753724. MTTR 0.5 h, a quarter of recoveries relapsed:
    # (1 - 0.484753724) / 1.5 * 0.75 = 0.257623138; 1/(1 + exp(-5 (0.257623138 - 0.5))) = 0.229370...
    add_input(
        connection,
        histograms=[bins(bin0=30), bins(bin9=30), bins(bin5=29), bins(bin5=900), *NO_DRIFT],
        mttr_hours=0.5,
        rho=0.25,
    )
    assert counts(connection) == (1, 1, 0)
    [row] = scores(
        connection,
        "inputs_digest, delta_csdma_plausibility_score, delta_dsdma_domain_alignment, delta_coherence_level,"
        "delta_drift, n_measured_metrics, r_score",
    )
    expected_r = 1 / (1 + math.exp(-5 * ((1 - 0.969507448 / 2) / 1.5 * 0.75 - 0.5)))
    assert row[0] == "digest"
    assert row[2] is None
    assert (row[1], *row[3:]) == pytest.approx((0.969507448, 0, 0.484753724, 2, expected_r), abs=1e-9)


def test_an_agent_without_a_baseline_is_unmeasured_not_zero(connection):
    add_input(connection, histograms=[bins(bin9=500), EMPTY] * 3)
    counts(connection)
    [row] = scores(connection, "delta_csdma_plausibility_score, delta_drift, n_measured_metrics, r_score")
    assert row == (None, 0, 0, pytest.approx(0.9241418200, abs=1e-10))


def test_nothing_to_do(connection):
    assert counts(connection) == (0, 0, 0)


def test_running_again_writes_nothing(connection):
    for agent in ("a", "b"):
        for window_days in (7, 30):
            add_input(connection, agent, window_days=window_days)
    assert counts(connection) == (4, 4, 0)
    before = scores(connection, "*")
    assert counts(connection) == (0, 0, 0)
    assert scores(connection, "*") == before


def test_changed_inputs_are_scored_again_and_only_they(connection):
    add_input(connection, "changed")
    add_input(connection, "same")
    counts(connection)
    [_, (_, computed_at)] = scores(connection, "agent_id_hash, computed_at")
    connection.execute(
        "update int_resilience_inputs set rho_regression = 1, inputs_digest = 'new' where agent_id_hash = 'changed'"
    )
    assert counts(connection) == (1, 1, 0)
    [changed, same] = scores(connection, "agent_id_hash, inputs_digest, r_score, computed_at")
    assert changed[:3] == ("changed", "new", pytest.approx(0.0758581800, abs=1e-10))
    assert same[1:] == ("digest", pytest.approx(0.9241418200, abs=1e-10), computed_at)


def test_scores_whose_inputs_are_gone_are_deleted(connection):
    add_input(connection, "gone")
    add_input(connection, "gone", as_of="2026-01-09")
    add_input(connection, "stays")
    counts(connection)
    connection.execute(
        "delete from int_resilience_inputs where agent_id_hash = 'gone' and as_of = '2026-01-08T00:00Z'"
    )
    assert counts(connection) == (0, 0, 1)
    assert scores(connection, "agent_id_hash, as_of::date::text") == [
        ("gone", "2026-01-09"),
        ("stays", "2026-01-08"),
    ]


@pytest.mark.parametrize("chunk_rows", [1, 3, 7, 1000])
def test_chunks_give_the_same_as_one_pass(connection, chunk_rows):
    for i in range(7):
        moved = [bins(bin9=100), bins(bin8=10 * i, bin9=100 - 10 * i)]
        add_input(connection, f"agent {i}", histograms=[*moved, *NO_DRIFT, *moved], rho=i / 10)
    lines: list[str] = []
    assert counts(connection, chunk_rows=chunk_rows, report=lines.append) == (7, 7, 0)
    assert len(lines) == -(-7 // chunk_rows)
    assert lines[-1] == "resilience: 7 of 7 rows computed"
    in_chunks = scores(connection, "agent_id_hash, delta_drift, r_score")
    connection.execute("truncate int_resilience_scores")
    counts(connection)
    assert scores(connection, "agent_id_hash, delta_drift, r_score") == in_chunks


def test_any_text_may_be_a_key(connection):
    agents = sorted(["", "NULL", "\\N", "a,b\tc\nd", 'Ægir\'s "agent"', "🜚"])
    for agent in agents:
        add_input(connection, agent)
    assert counts(connection) == (6, 6, 0)
    assert sorted(agent for agent, _ in scores(connection)) == agents


def test_histograms_may_be_bigint(connection):
    for metric in METRICS:
        for window in ("recent", "baseline"):
            connection.execute(f"alter table int_resilience_inputs alter {metric}_{window} type bigint[]")
    add_input(connection, histograms=[bins(bin9=2**40), bins(bin9=2**40)] * 3)
    counts(connection)
    assert scores(connection) == [("agent", pytest.approx(0.9241418200, abs=1e-10))]


def test_parameters_are_those_published(connection):
    connection.execute(
        "update int_scoring_parameters set parameter_value = '24' where parameter_name = 'mttr_scale_hours'"
    )
    add_input(connection, mttr_hours=24)
    with pytest.raises(StepError, match="1 rows of .* were made for other parameters"):
        counts(connection)
    assert scores(connection) == []
    connection.execute("update int_resilience_inputs set step_parameters = '0.5|30|24|5|0.5'")
    counts(connection)
    assert scores(connection) == [("agent", pytest.approx(0.5))]


# --- what must stop it, leaving everything as it was ---------------------------------------------------------------


@pytest.mark.parametrize(
    "broken",
    [
        {"histograms": [bins(bin9=30)[:9], bins(bin9=30)] + NO_DRIFT * 2},
        {"histograms": [[*bins(bin9=30)[:9], None], bins(bin9=30)] + NO_DRIFT * 2},
        {"histograms": [bins(bin9=30), bins(bin9=30, bin0=-1)] + NO_DRIFT * 2},
        {"histograms": [None, bins(bin9=30)] + NO_DRIFT * 2},
        {"mttr_hours": None},
        {"digest": None},
    ],
    ids=["nine bins", "a null bin", "a negative count", "a missing histogram", "no MTTR", "no digest"],
)
def test_malformed_inputs_are_refused(connection, broken):
    add_input(connection, "sound")
    add_input(connection, "broken", **broken)
    with pytest.raises(StepError, match="1 rows of .*int_resilience_inputs"):
        run_step(connection, MARTS)
    assert scores(connection) == []


@pytest.mark.parametrize("value", [None, "thirty", ""])
def test_an_unusable_parameter_is_named(connection, value):
    connection.execute(
        "update int_scoring_parameters set parameter_value = %s where parameter_name = 'drift_min_sample'",
        [value],
    )
    with pytest.raises(StepError, match="int_scoring_parameters.*drift_min_sample"):
        run_step(connection, MARTS)


def test_a_missing_parameter_is_named(connection):
    connection.execute("delete from int_scoring_parameters where parameter_name = 'norm_x0'")
    with pytest.raises(StepError, match="norm_x0"):
        run_step(connection, MARTS)


@pytest.mark.parametrize(
    "relation", ["int_scoring_parameters", "int_resilience_inputs", "int_resilience_scores"]
)
def test_a_missing_relation_says_what_to_build(connection, relation):
    connection.execute(f"drop table {relation}")
    with pytest.raises(StepError, match=relation) as caught:
        run_step(connection, MARTS)
    assert "dbt build" in caught.value.hint


def test_a_failure_in_the_middle_changes_nothing(connection):
    add_input(connection, "old")
    counts(connection)
    before = scores(connection, "*")
    connection.execute("alter table int_resilience_scores add check (agent_id_hash <> 'refused')")
    connection.execute("delete from int_resilience_inputs where agent_id_hash = 'old'")
    add_input(connection, "new")
    add_input(connection, "refused")
    with pytest.raises(psycopg.errors.CheckViolation):
        run_step(connection, MARTS)
    assert scores(connection, "*") == before


def test_a_connection_lost_in_the_middle_changes_nothing(connection, every_database):
    for i in range(3):
        add_input(connection, f"agent {i}")

    def end_the_session(_: str) -> None:
        with every_database.connect() as other:
            other.execute("select pg_terminate_backend(%s)", [connection.info.backend_pid])

    with pytest.raises(psycopg.OperationalError):
        run_step(connection, MARTS, chunk_rows=1, report=end_the_session)
    with every_database.connect() as other:
        other.execute(f"set search_path to {INTERMEDIATE}")
        assert scores(other) == []
        assert counts(other) == (3, 3, 0)
