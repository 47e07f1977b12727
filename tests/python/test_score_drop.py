"""The SQL that decides whether a score fell by more than chance, against the package's own."""

from __future__ import annotations

import numpy as np
import psycopg
import pytest
from dbt.cli.main import dbtRunner

from ciris_scoring.steps.intervals import LEVEL_95, LEVEL_99, Level, drop_limit, is_falling
from conftest import REPOSITORY, Database
from pipeline import kept_parsed

ARGUMENTS = "earlier, earlier_low, score, high"


def compiled(database: Database, expression: str) -> str:
    """What dbt makes of an expression with macros."""
    with kept_parsed(database.profiles_dir):
        outcome = dbtRunner().invoke(
            ["compile", "--inline", expression, "--project-dir", str(REPOSITORY), "--quiet"]
            + ["--profiles-dir", str(database.profiles_dir)]
        )
    assert outcome.exception is None, outcome.exception
    return outcome.result.results[0].node.compiled_code


def drops(rng: np.random.Generator, n: int) -> np.ndarray:
    """(n, 4) earlier score and its lower limit, score and its upper limit; 0, 1, no width and nulls among them."""
    score, earlier = rng.random((2, n)) ** rng.choice([0.2, 1.0, 3.0], size=(2, n))
    low = earlier * rng.choice([0.0, 0.3, 0.8, 0.97, 1.0], size=n)
    high = score + (1 - score) * rng.choice([0.0, 0.02, 0.2, 1.0], size=n)
    values = np.stack([earlier, low, score, high], axis=-1)
    values[rng.random(n) < 0.1, :2] = 0.0
    values[rng.random(n) < 0.1, 2] = 0.0
    values[rng.random(n) < 0.03, 2:] = 0.0
    values[rng.random(n) < 0.03] = np.nan
    values[rng.random((n, 4)) < 0.02] = np.nan
    return values


@pytest.fixture
def table(database: Database):
    rng = np.random.default_rng(1)
    values = drops(rng, 4000)
    with database.connect() as connection:
        connection.execute(
            "create table drops (id int, earlier float8, earlier_low float8, score float8, high float8)"
        )
        with connection.cursor().copy("copy drops from stdin") as copy:
            for index, row in enumerate(values.tolist()):
                copy.write_row([index, *(None if x != x else x for x in row)])
        yield connection, values


def column(connection: psycopg.Connection, expression: str) -> list:
    return [row[0] for row in connection.execute(f"select {expression} from drops order by id").fetchall()]


def quoted(*quantiles: float) -> str:
    return ", ".join([f"'{name.strip()}'" for name in ARGUMENTS.split(",")] + [str(q) for q in quantiles])


@pytest.mark.parametrize("level", [LEVEL_95, LEVEL_99])
def test_the_limit_of_a_drop(database: Database, table, level: Level) -> None:
    connection, values = table
    sql = compiled(database, "{{ drop_limit(" + quoted(*level) + ") }}")
    found = np.array([np.nan if x is None else x for x in column(connection, sql)])
    expected = drop_limit(*values.T, level)
    assert np.isinf(expected).sum() > 50 and np.isnan(expected).sum() > 50 and (expected > 0).sum() > 300
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_whether_falling_is_raised(database: Database, table) -> None:
    connection, values = table
    sql = compiled(
        database,
        "coalesce({{ capacity_fall('earlier', 'score') }} >= {{ least_fall(" + quoted() + ") }}, false)",
    )
    expected = is_falling(*values.T, 0.15)
    assert 200 < expected.sum() < 3800
    assert column(connection, sql) == expected.tolist()
