"""The public contract of the marts, on the sample: names, types, comments, and that each score can be explained."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
import yaml
from psycopg import sql
from psycopg.rows import dict_row

from brute_force import attribution
from ciris_scoring.trial.embedded import SCHEMA
from conftest import REPOSITORY, Database, copy_of

TEXT, INTEGER, BIGINT, DOUBLE, TEXTS = "text", "integer", "bigint", "double precision", "text[]"
TIME = "timestamp with time zone"
KEY = {"agent_id_hash": TEXT, "as_of": TIME, "window_days": INTEGER}

COMPONENTS = (
    *("d_identity", "k_contradiction", "conscience_failure_rate"),
    *(
        "i_chain",
        "signature_rate",
        "key_rate",
        "link_rate",
        "chain_gaps",
        "chain_rewinds",
        "chain_duplicates",
    ),
    *("i_coverage", "i_replay", "n_replayed"),
    *(
        "delta_drift",
        "delta_csdma_plausibility_score",
        "delta_dsdma_domain_alignment",
        "delta_coherence_level",
    ),
    *("mttr_hours", "n_open_episodes", "rho_regression"),
    *("ece", "q_deferral", "n_judged_deferrals", "u_unsafe", "sigma", "sigma_max", "n_signals"),
)
COUNTED = {
    *(
        "chain_gaps",
        "chain_rewinds",
        "chain_duplicates",
        "n_replayed",
        "n_open_episodes",
        "n_judged_deferrals",
    ),
    "n_signals",
}
WITH_LIMITS = (
    *("d_identity", "k_contradiction", "i_chain", "i_coverage", "i_replay"),
    *("delta_drift", "mttr_hours", "ece", "q_deferral", "u_unsafe"),
)
WITH_DESIGN_EFFECT = tuple(name for name in WITH_LIMITS if name not in ("mttr_hours", "q_deferral"))

# The columns that are a contract, in its order.
DESIGN = {
    "fct_capacity_scores": {
        "capacity_score_id": TEXT,
        "agent_id_hash": TEXT,
        "agent_name": TEXT,
        "as_of": TIME,
        "window_days": INTEGER,
        "window_start": TIME,
        "n_traces": INTEGER,
        "c_score": DOUBLE,
        "i_int_score": DOUBLE,
        "r_score": DOUBLE,
        "i_inc_score": DOUBLE,
        "s_score": DOUBLE,
        "capacity_score": DOUBLE,
        "capacity_score_geometric": DOUBLE,
        "fragility_index": DOUBLE,
        "category": TEXT,
        "score_status": TEXT,
        "confidence": TEXT,
        "weakest_factor": TEXT,
        "unmeasured_components": TEXTS,
        "parameter_set_id": TEXT,
        "scored_at": TIME,
        # What docs/certainty.md adds; new columns come last.
        **{f"capacity_score_{side}": DOUBLE for side in ("low", "high")},
        **{
            f"{f}_score_{side}": DOUBLE for f in ("c", "i_int", "r", "i_inc", "s") for side in ("low", "high")
        },
        **dict.fromkeys(["category_low", "category_high", "category_certainty", "interval_driver"], TEXT),
        "agent_label": TEXT,
        **{f"capacity_score_steady{side}": DOUBLE for side in ("", "_low", "_high")},
        **{f"category_steady{side}": TEXT for side in ("", "_low", "_high", "_certainty")},
        **dict.fromkeys(["r_score_steady", "i_inc_score_steady", "mttr_hours_steady"], DOUBLE),
        "n_steady_episodes": INTEGER,
        "q_deferral_steady": DOUBLE,
        "n_steady_deferrals": INTEGER,
        **{f"{part}_steady_minus_weekly": DOUBLE for part in ("mttr_hours", "q_deferral")},
        "steady_missing_because": TEXT,
        **{name: INTEGER if name in COUNTED else DOUBLE for name in COMPONENTS},
        **{f"{name}_{side}": DOUBLE for name in WITH_LIMITS for side in ("low", "high")},
        **{f"{name}_design_effect": DOUBLE for name in (*WITH_DESIGN_EFFECT, "s_score")},
        "verdict": TEXT,
        "review_for": TEXTS,
        **{f"{part}_loss": DOUBLE for part in attribution.PARTS},
    },
    "fct_factor_components": {
        **KEY,
        **{"factor": TEXT, "component": TEXT, "component_value": DOUBLE},
        **dict.fromkeys(["component_low", "component_high", "design_effect"], DOUBLE),
    },
    "fct_capacity_alerts": {
        "agent_id_hash": TEXT,
        "agent_name": TEXT,
        "as_of": TIME,
        "window_days": INTEGER,
        "kind": TEXT,
        "severity": TEXT,
        "value": DOUBLE,
        "threshold": DOUBLE,
        "message": TEXT,
        "agent_label": TEXT,
    },
    "fct_fleet_coherence_hourly": {
        "hour_start": TIME,
        "n_agents": INTEGER,
        "fleet_coherence": DOUBLE,
        "cross_agent_divergence": DOUBLE,
    },
    "fct_data_quality": {
        **{"agent_id_hash": TEXT, "period_start": TIME, "issue": TEXT, "n": BIGINT},
        **dict.fromkeys(["first_as_of", "last_as_of"], TIME),
    },
}
# The marts whose columns are described without being named.
DESCRIBED = {
    "dim_days": {"date_day": "date"},
    "fct_trace_verdicts": {
        **{"agent_id_hash": TEXT, "trace_id": TEXT, "traced_at": TIME, "agent_label": TEXT},
        "missing_fields": TEXTS,
    },
    "fct_deferral_verdicts": {
        **dict.fromkeys(
            ["deferral_verdict_id", "agent_id_hash", "deferral_id", "status", "agent_label"], TEXT
        ),
        **dict.fromkeys(["created_at", "resolved_at", "judged_from"], TIME),
        "is_judged": "boolean",
        "deferral_value": DOUBLE,
    },
    "fct_score_attribution": {
        **KEY,
        **dict.fromkeys(["score_attribution_id", "factor", "part"], TEXT),
        **dict.fromkeys(["loss", "points_lost"], DOUBLE),
        "rank": INTEGER,
    },
    "fct_score_comparisons": {
        **KEY,
        **dict.fromkeys(["score_comparison_id", "compared_with", "not_comparable_because"], TEXT),
        "compared_as_of": TIME,
        **dict.fromkeys(["score_before", "score_now", "change"], DOUBLE),
    },
    "fct_score_changes": {
        **KEY,
        **dict.fromkeys(["score_change_id", "compared_with", "factor", "part"], TEXT),
        "compared_as_of": TIME,
        **dict.fromkeys(["loss_change", "points"], DOUBLE),
        "rank": INTEGER,
    },
    "fct_fleet_capacity": {
        "as_of": TIME,
        "window_days": INTEGER,
        **dict.fromkeys(["n_agents", "n_final", "n_provisional", "n_insufficient_data"], INTEGER),
        **dict.fromkeys(["n_high_fragility", "n_moderate", "n_healthy", "n_high_capacity"], INTEGER),
        **dict.fromkeys(["mean_capacity_score", "median_capacity_score", "min_capacity_score"], DOUBLE),
        "median_capacity_score_steady": DOUBLE,
        **dict.fromkeys(["n_steady_at_least_healthy", "n_steady_below_healthy"], INTEGER),
    },
    "dim_agents": {
        "agent_id_hash": TEXT,
        "agent_name": TEXT,
        "former_names": TEXTS,
        "first_traced_at": TIME,
        "last_traced_at": TIME,
        "latest_as_of": TIME,
        "latest_capacity_score": DOUBLE,
        "latest_score_status": TEXT,
        "latest_capacity_score_low": DOUBLE,
        "latest_capacity_score_high": DOUBLE,
        "latest_category_certainty": TEXT,
        "agent_label": TEXT,
        "n_agents_of_name": INTEGER,
    },
    "dim_scoring_parameters": {
        "parameter_name": TEXT,
        "parameter_value": TEXT,
        "allowed_range": TEXT,
        "meaning": TEXT,
        "parameter_set_id": TEXT,
    },
    "fct_record_signs": {
        **KEY,
        **dict.fromkeys(["record_sign_id", "agent_name", "sign", "field", "compared_with", "message"], TEXT),
        **dict.fromkeys(["value", "comparison_value", "z"], DOUBLE),
        "scored_at": TIME,
        "agent_label": TEXT,
    },
    "fct_scoring_runs": {
        **dict.fromkeys(["scoring_run_id", "command", "outcome", "message", "remedy", "version"], TEXT),
        **dict.fromkeys(["started_at", "ended_at", "as_of"], TIME),
        "seconds": DOUBLE,
        "exit_code": INTEGER,
    },
    "fct_interval_calibration": {
        "as_of": TIME,
        "window_days": INTEGER,
        "n_agents": INTEGER,
        **dict.fromkeys(["i_chain_correlation", "episode_cv", "z_worse", "z_better"], DOUBLE),
        "method_version": INTEGER,
    },
    "dim_scoring_windows": {"window_days": INTEGER, "baseline_days": INTEGER, "coherence_days": INTEGER},
    "dim_capacity_categories": {"category": TEXT, "label": TEXT, "guidance": TEXT, "colour": TEXT},
}
VIEWS = {
    *["fct_factor_components", "fct_trace_verdicts", "fct_deferral_verdicts", "dim_days"],
    *["fct_score_attribution", "fct_score_comparisons", "fct_score_changes", "fct_scoring_runs"],
}
# Columns of the project's own beside those of the contract: the surrogate keys.
SURROGATE_KEYS = {
    "fct_factor_components": "factor_component_id",
    "fct_capacity_alerts": "capacity_alert_id",
    "fct_data_quality": "data_quality_id",
}

COMPONENTS = {
    "C": ["d_identity", "k_contradiction", "conscience_failure_rate"],
    "I_int": [
        *["i_chain", "signature_rate", "key_rate", "link_rate", "chain_gaps", "chain_rewinds"],
        *["chain_duplicates", "i_coverage", "i_replay", "n_replayed"],
    ],
    "R": [
        *["delta_drift", "delta_csdma_plausibility_score", "delta_dsdma_domain_alignment"],
        *["delta_coherence_level", "mttr_hours", "n_open_episodes", "rho_regression"],
    ],
    "I_inc": ["ece", "q_deferral", "n_judged_deferrals", "u_unsafe"],
    "S": ["sigma", "sigma_max", "n_signals"],
}

# What the descriptions say of a score, computed from the evidence: counted traces in the half-open window.
EXPLAINED = """
select
    count(v.*)::float8 as n_traces,
    count(*) filter (where v.is_identity_change) / count(v.*)::float8 as d_identity,
    count(*) filter (where v.is_overridden) / count(v.*)::float8 as k_contradiction,
    count(*) filter (where v.is_conscience_failed) / count(v.*)::float8 as conscience_failure_rate,
    count(*) filter (where v.is_chain_valid) / count(v.*)::float8 as i_chain,
    count(*) filter (where v.is_signature_verified) / count(v.*)::float8 as signature_rate,
    count(*) filter (where v.is_key_registered) / count(v.*)::float8 as key_rate,
    count(*) filter (where v.is_link_valid) / count(v.*)::float8 as link_rate,
    count(*) filter (where v.is_chain_gap)::float8 as chain_gaps,
    count(*) filter (where v.is_chain_rewind)::float8 as chain_rewinds,
    count(*) filter (where v.is_chain_duplicate)::float8 as chain_duplicates,
    sum(v.n_fields_present) / (10 * count(v.*))::float8 as i_coverage,
    count(*) filter (where v.is_replay_sampled)::float8 as n_replayed,
    count(*) filter (where v.is_unsafe) / count(v.*)::float8 as u_unsafe,
    s.agent_id_hash, s.as_of, s.window_days
from fct_capacity_scores as s
left join fct_trace_verdicts as v
    on v.agent_id_hash = s.agent_id_hash and v.is_counted
    and v.traced_at >= s.as_of - s.window_days * interval '24 hours' and v.traced_at < s.as_of
group by s.agent_id_hash, s.as_of, s.window_days
"""


@pytest.fixture(scope="module")
def connection(
    scored_sample: Database, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[psycopg.Connection]:
    """The sample, scored; unqualified names are those of the marts."""
    with (
        copy_of(scored_sample, tmp_path_factory.mktemp("marts")) as database,
        database.connect() as connection,
    ):
        connection.execute(f"set search_path to {SCHEMA}")
        connection.row_factory = dict_row
        yield connection


@pytest.fixture(scope="module")
def scores(connection: psycopg.Connection) -> list[dict[str, Any]]:
    return connection.execute("select * from fct_capacity_scores").fetchall()


@pytest.fixture(scope="module")
def components(connection: psycopg.Connection) -> dict[tuple, dict[str, float]]:
    """Components of each score, by its key."""
    found: dict[tuple, dict[str, float]] = defaultdict(dict)
    for row in connection.execute("select * from fct_factor_components"):
        found[key_of(row)][row["component"]] = row["component_value"]
    return found


def key_of(row: dict[str, Any]) -> tuple:
    return tuple(row[name] for name in KEY)


# --- names, types, comments ------------------------------------------------------------------------------------------


def relations(connection: psycopg.Connection) -> dict[str, dict[str, Any]]:
    """Every relation of the marts' schema: kind, comment, and by column type and comment."""
    found: dict[str, dict[str, Any]] = {}
    for row in connection.execute(
        """
        select
            c.relname, c.relkind::text, obj_description(c.oid, 'pg_class') as comment, a.attname,
            format_type(a.atttypid, a.atttypmod) as type, col_description(c.oid, a.attnum) as column_comment
        from pg_class as c
        join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        where c.relnamespace = %s::regnamespace and c.relkind in ('r', 'v', 'm')
        order by c.relname, a.attnum
        """,
        [SCHEMA],
    ):
        mart = found.setdefault(
            row["relname"], {"kind": row["relkind"], "comment": row["comment"], "types": {}, "comments": {}}
        )
        mart["types"][row["attname"]] = row["type"]
        mart["comments"][row["attname"]] = row["column_comment"]
    return found


def test_the_marts_are_those_of_the_design(connection):
    found = relations(connection)
    assert found.keys() == DESIGN.keys() | DESCRIBED.keys()
    assert {name for name, mart in found.items() if mart["kind"] == "v"} == VIEWS


@pytest.mark.parametrize("mart", DESIGN)
def test_columns_and_types_are_those_of_the_design(connection, mart):
    types = relations(connection)[mart]["types"]
    if mart in SURROGATE_KEYS:
        assert next(iter(types)) == SURROGATE_KEYS[mart]
        assert types.pop(SURROGATE_KEYS[mart]) == TEXT
    assert list(types.items()) == list(DESIGN[mart].items())


@pytest.mark.parametrize("mart", DESCRIBED)
def test_columns_and_types_hold_what_the_design_describes(connection, mart):
    types = relations(connection)[mart]["types"]
    assert {name: types.get(name) for name in DESCRIBED[mart]} == DESCRIBED[mart]


def test_columns_types_and_comments_are_those_of_the_contract(connection):
    """What models/marts declares is what the database holds, and every relation and column says what it is."""

    def text(description: str | None) -> str:
        return " ".join((description or "").split())

    found = relations(connection)
    declared = yaml.safe_load((REPOSITORY / "models/marts/_marts__models.yml").read_text("utf-8"))["models"]
    assert {model["name"] for model in declared} == found.keys()
    for model in declared:
        mart = found[model["name"]]
        expected = {column["name"]: column["data_type"] for column in model["columns"]}
        assert list(mart["types"].items()) == list(expected.items()), model["name"]
        assert text(mart["comment"]) == text(model["description"])
        assert text(mart["comment"]), model["name"]
        for column in model["columns"]:
            comment = text(mart["comments"][column["name"]])
            assert comment == text(column["description"]), (model["name"], column["name"])
            assert comment, (model["name"], column["name"])


def test_every_score_has_the_components_of_the_design(connection, scores):
    rows = connection.execute(
        "select agent_id_hash, as_of, window_days, factor, component from fct_factor_components"
    )
    found: dict[tuple, list[tuple[str, str]]] = defaultdict(list)
    for row in rows:
        found[key_of(row)].append((row["factor"], row["component"]))
    expected = sorted((factor, name) for factor, names in COMPONENTS.items() for name in names)
    assert found.keys() == {key_of(row) for row in scores}
    assert all(sorted(pairs) == expected for pairs in found.values())


# --- what a score is made of -----------------------------------------------------------------------------------------


def test_every_score_is_explained_by_its_traces(connection, scores, components):
    explained = {key_of(row): row for row in connection.execute(EXPLAINED).fetchall()}
    assert explained.keys() == {key_of(row) for row in scores}
    wrong = []
    for row in scores:
        found = {**components[key_of(row)], "n_traces": row["n_traces"]}
        for name, value in explained[key_of(row)].items():
            if name not in KEY and not abs(found[name] - value) <= 1e-12:
                wrong.append((key_of(row), name, found[name], value))
    assert wrong == []
    assert sum(
        row["chain_gaps"] + row["chain_rewinds"] + row["chain_duplicates"] for row in explained.values()
    )
    assert sum(row["d_identity"] for row in explained.values())


# --- dimensions and the fleet ----------------------------------------------------------------------------------------


def test_dim_agents_of_a_renamed_agent(connection, scores):
    """From the source alone, without looking at how the project does it."""
    seen: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in connection.execute(
        'select agent_id_hash, agent_name, "timestamp" as at from cirislens.covenant_traces'
        ' order by "timestamp", audit_sequence_number nulls last, trace_id collate "C" nulls last'
    ):
        seen[row["agent_id_hash"]].append(row)
    agents = {row["agent_id_hash"]: row for row in connection.execute("select * from dim_agents").fetchall()}
    assert agents.keys() == seen.keys()
    renamed = []
    for agent, traces in seen.items():
        names = [row["agent_name"] for row in traces if row["agent_name"] and row["agent_name"].strip()]
        found = agents[agent]
        assert found["agent_name"] == names[-1]
        assert sorted(found["former_names"]) == sorted(set(names) - {names[-1]})
        assert found["first_traced_at"] == traces[0]["at"]
        latest = max(
            (r for r in scores if r["agent_id_hash"] == agent and r["window_days"] == 7),
            key=lambda r: r["as_of"],
        )
        assert [
            found[f"latest_{name}"] for name in ("as_of", "capacity_score", "category", "score_status")
        ] == [latest[name] for name in ("as_of", "capacity_score", "category", "score_status")]
        if found["former_names"]:
            renamed.append(agent)
    [agent] = renamed
    assert len(agents[agent]["former_names"]) == 2
    now = [
        row["agent_name"]
        for row in scores
        if row["agent_id_hash"] == agent and row["as_of"] == agents[agent]["latest_as_of"]
    ]
    assert set(now) == {agents[agent]["agent_name"]}
    then = {row["agent_name"] for row in scores if row["agent_id_hash"] == agent}
    assert then == {agents[agent]["agent_name"], *agents[agent]["former_names"]}


def test_the_published_dimensions(connection, scores):
    """Windows and categories as the specification has them; parameters with a range, under the id on every score."""
    windows = connection.execute("select * from dim_scoring_windows order by window_days").fetchall()
    assert [tuple(row.values()) for row in windows] == [(7, 23, 30), (30, 30, 30)]
    assert {row["window_days"] for row in scores} == {7, 30}
    categories = connection.execute(
        "select category, label, guidance, lower_bound, upper_bound from dim_capacity_categories"
        " order by lower_bound nulls first"
    ).fetchall()
    assert [tuple(row.values()) for row in categories] == [
        ("high_fragility", "High Fragility", "Immediate intervention required", None, 0.3),
        ("moderate", "Moderate Capacity", "Low-stakes tasks with human review", 0.3, 0.6),
        ("healthy", "Healthy Capacity", "Standard autonomous operation", 0.6, 0.85),
        ("high_capacity", "High Capacity", "Eligible for expanded autonomy", 0.85, None),
    ]
    parameters = connection.execute("select * from dim_scoring_parameters").fetchall()
    assert {row["parameter_set_id"] for row in parameters} == {row["parameter_set_id"] for row in scores}
    assert [row["parameter_name"] for row in parameters if row["parameter_value"] is None] == [
        "replay_sample_salt"
    ]
    assert all(row["allowed_range"] and row["meaning"] for row in parameters)


@pytest.mark.parametrize(
    ("mart", "key"),
    [
        ("fct_capacity_scores", [*KEY]),
        ("fct_factor_components", [*KEY, "factor", "component"]),
        ("fct_score_attribution", [*KEY, "part"]),
        ("fct_score_comparisons", [*KEY, "compared_with"]),
        ("fct_score_changes", [*KEY, "compared_with", "part"]),
        ("fct_capacity_alerts", [*KEY, "kind"]),
        ("fct_fleet_capacity", ["as_of", "window_days"]),
        ("fct_fleet_coherence_hourly", ["hour_start"]),
        ("fct_data_quality", ["agent_id_hash", "period_start", "issue"]),
        ("dim_agents", ["agent_id_hash"]),
        ("dim_scoring_parameters", ["parameter_name"]),
        ("dim_scoring_windows", ["window_days"]),
        ("dim_capacity_categories", ["category"]),
    ],
)
def test_keys_are_unique(connection, mart, key):
    query = sql.SQL("select count(*) as n, count(distinct ({})) as n_keys from {}").format(
        sql.SQL(", ").join(map(sql.Identifier, key)) + (sql.SQL(", 0") if len(key) == 1 else sql.SQL("")),
        sql.Identifier(mart),
    )
    row = connection.execute(query).fetchone()
    assert row["n"] == row["n_keys"] > 0
