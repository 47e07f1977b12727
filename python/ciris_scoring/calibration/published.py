"""What calibration reads from the marts: scores with their components and losses, parameters, categories, agents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql
from psycopg.rows import dict_row

from ciris_scoring.basics.connection import one_row, table_exists
from ciris_scoring.basics.relations import Relations
from ciris_scoring.calibration.formulas import Components, Floats
from ciris_scoring.calibration.labels import Label

MARTS = (
    "fct_capacity_scores",
    "fct_factor_components",
    "fct_score_attribution",
    "dim_scoring_parameters",
    "dim_capacity_categories",
    "dim_agents",
)


@dataclass(frozen=True)
class Scores:
    """Published scores of n agent-as-ofs that have one, in the order of span, agent and as-of."""

    span: NDArray[np.int64]
    """(n,) number of the span that the as-of is in; 0 in a fleet."""
    components: Components
    capacity_score: Floats
    capacity_score_geometric: Floats
    category: Sequence[str]
    parts: Sequence[str]
    """Names of the attributed parts."""
    losses: Floats
    """(n, parts), infinite where a part alone makes the score 0."""


@dataclass(frozen=True)
class Category:
    """A category of scores."""

    name: str
    lower_bound: float


def missing_marts(connection: psycopg.Connection, relations: Relations) -> list[str]:
    """Return the relations that calibration reads and that are not there."""
    return [mart for mart in MARTS if not table_exists(connection, *relations.places[mart])]


def read_parameters(
    connection: psycopg.Connection, relations: Relations
) -> dict[str, tuple[str | None, str]]:
    """Read value and allowed range of every parameter, in the order of sections."""
    query = sql.SQL(
        "select parameter_name, parameter_value, allowed_range from {} order by specification_section, parameter_name"
    ).format(relations["dim_scoring_parameters"])
    return {name: (value, allowed) for name, value, allowed in connection.execute(query)}


def read_categories(connection: psycopg.Connection, relations: Relations) -> list[Category]:
    """Read the categories, the lowest first."""
    query = sql.SQL(
        "select category, coalesce(lower_bound, '-Infinity') as lower_bound from {} order by lower_bound"
    ).format(relations["dim_capacity_categories"])
    return [Category(name, bound) for name, bound in connection.execute(query)]


def read_agents(connection: psycopg.Connection, relations: Relations) -> list[tuple[str, str | None]]:
    """Read hash and present name of every agent."""
    query = sql.SQL("select agent_id_hash, agent_name from {}").format(relations["dim_agents"])
    return [(agent_id_hash, name) for agent_id_hash, name in connection.execute(query)]


def count_rows(
    connection: psycopg.Connection, relations: Relations, moment: datetime, window_days: int
) -> int:
    """Count the agents with a row at an as-of, scored or not."""
    query = sql.SQL("select count(*) from {} where as_of = %s and window_days = %s").format(
        relations["fct_capacity_scores"]
    )
    return int(one_row(connection.execute(query, [moment, window_days]))[0])


def read_fleet(
    connection: psycopg.Connection, relations: Relations, moment: datetime, window_days: int
) -> Scores:
    """Read the scores of every agent at an as-of."""
    rows = sql.SQL("select 0 as span, * from {} where as_of = %(moment)s").format(
        relations["fct_capacity_scores"]
    )
    return _read(connection, relations, rows, {"moment": moment, "window_days": window_days})


def read_spans(
    connection: psycopg.Connection,
    relations: Relations,
    labels: Sequence[Label],
    hashes: Sequence[str],
    window_days: int,
) -> Scores:
    """Read the scores in the spans of labels: those with an as-of later than its start, up to and including its end.

    :param hashes: agent of each label.
    """
    rows = sql.SQL(
        """
        select spans.span - 1 as span, scores.*
        from unnest(%(agents)s::text[], %(first)s::timestamptz[], %(last)s::timestamptz[])
            with ordinality as spans (agent_id_hash, first, last, span)
        inner join {} as scores
            on
                spans.agent_id_hash = scores.agent_id_hash
                and scores.as_of > spans.first
                and scores.as_of <= spans.last
        """
    ).format(relations["fct_capacity_scores"])
    spans = {
        "agents": list(hashes),
        "first": [label.first for label in labels],
        "last": [label.last for label in labels],
    }
    return _read(connection, relations, rows, {**spans, "window_days": window_days})


def _read(
    connection: psycopg.Connection, relations: Relations, rows: sql.Composed, values: Mapping[str, object]
) -> Scores:
    """Read the scores among some rows of the mart: those of the parameters in force, with components and losses."""
    names = [field.name for field in fields(Components)]
    of_scores = ("i_int_score", "i_inc_score", "s_score")
    query = sql.SQL(
        """
        with chosen as materialized (
            select *
            from ({rows}) as rows
            where window_days = %(window_days)s and capacity_score is not null
        ),

        losses as (
            select
                attribution.agent_id_hash,
                attribution.as_of,
                array_agg(attribution.part order by attribution.part) as parts,
                array_agg(coalesce(attribution.loss, 'Infinity') order by attribution.part) as losses
            from chosen
            inner join {attribution} as attribution
                on
                    chosen.agent_id_hash = attribution.agent_id_hash
                    and chosen.as_of = attribution.as_of
                    and chosen.window_days = attribution.window_days
            group by attribution.agent_id_hash, attribution.as_of
        ),

        components as (
            select
                factor_components.agent_id_hash,
                factor_components.as_of,
                {components}
            from chosen
            inner join {factor_components} as factor_components
                on
                    chosen.agent_id_hash = factor_components.agent_id_hash
                    and chosen.as_of = factor_components.as_of
                    and chosen.window_days = factor_components.window_days
            group by factor_components.agent_id_hash, factor_components.as_of
        )

        select
            chosen.span,
            chosen.capacity_score,
            chosen.capacity_score_geometric,
            chosen.category,
            losses.parts,
            losses.losses,
            {columns}
        from chosen
        inner join components
            on chosen.agent_id_hash = components.agent_id_hash and chosen.as_of = components.as_of
        inner join losses
            on chosen.agent_id_hash = losses.agent_id_hash and chosen.as_of = losses.as_of
        order by chosen.span, chosen.agent_id_hash, chosen.as_of
        """
    ).format(
        rows=rows,
        attribution=relations["fct_score_attribution"],
        factor_components=relations["fct_factor_components"],
        components=sql.SQL(", ").join(
            sql.SQL("max(component_value) filter (where component = {}) as {}").format(
                name, sql.Identifier(name)
            )
            for name in names
            if name not in of_scores
        ),
        columns=sql.SQL(", ").join(
            sql.Identifier("chosen" if name in of_scores else "components", name) for name in names
        ),
    )
    with connection.cursor(row_factory=dict_row) as cursor:
        found = cursor.execute(query, values).fetchall()
    parts = found[0]["parts"] if found else []

    def column(name: str) -> Floats:
        return np.array([row[name] for row in found], dtype=np.float64)

    return Scores(
        span=np.array([row["span"] for row in found], dtype=np.int64),
        components=Components(*map(column, names)),
        capacity_score=column("capacity_score"),
        capacity_score_geometric=column("capacity_score_geometric"),
        category=[row["category"] for row in found],
        parts=parts,
        losses=column("losses").reshape(len(found), len(parts)),
    )
