"""The resilience step: from histograms, MTTR and ρ in the database to δ_drift and R, and back.

dbt builds ``int_resilience_inputs`` and owns the table ``int_resilience_scores``, both as dbt's manifest
names them. A row of inputs *waits* while no row of scores has the same key (agent, as-of,
window) and the same digest of the inputs. The step computes the waiting rows, writes them, and deletes the scores
whose inputs are gone, in one transaction: afterwards there is one row of scores per row of inputs, or nothing has
changed. Running it again finds nothing waiting.

Only numbers travel, by COPY in binary; the keys stay in the database, in a temporary table that numbers the waiting
rows. Memory is bounded by the chunk, not by the number of rows.
"""

import time
from datetime import datetime
from typing import NamedTuple

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

from ciris_scoring.basics.connection import one_row
from ciris_scoring.basics.errors import StepError
from ciris_scoring.basics.relations import Relations
from ciris_scoring.steps.resilience import N_BINS, drift, resilience_score
from ciris_scoring.steps.step import (
    ANALYZE_ROWS,
    FIRST_HALF_HINT,
    Report,
    StepResult,
    analyze,
    column_list,
    one_transaction,
    read_parameter_texts,
    require_published_parameters,
    require_relations,
)

METRICS = ("csdma_plausibility_score", "dsdma_domain_alignment", "coherence_level")
DELTAS = tuple(f"delta_{metric}" for metric in METRICS)
KEY = ("agent_id_hash", "as_of", "window_days")

CHUNK_ROWS = 20_000
"""Rows in memory at a time; with the working arrays some 75 MB."""

N_COUNTS = len(METRICS) * 2 * N_BINS

_RESULT_TYPES = {
    "row_id": "int8",
    **dict.fromkeys(DELTAS, "float8"),
    "delta_drift": "float8",
    "n_measured_metrics": "int4",
    "r_score": "float8",
}
"""Columns of the temporary table of results, with their types."""

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Numbers = Integers | Floats


class Parameters(NamedTuple):
    """The published parameters that the step uses, with their names in ``int_scoring_parameters``."""

    drift_pseudo_count: float
    drift_min_sample: float
    mttr_scale_hours: float
    norm_k: float
    norm_x0: float


def run_step(
    connection: psycopg.Connection,
    relations: Relations,
    *,
    since: datetime | None = None,
    chunk_rows: int = CHUNK_ROWS,
    report: Report = lambda line: None,
) -> StepResult:
    """Score every waiting row of ``int_resilience_inputs``, in one transaction.

    :param connection: not inside a transaction; its role may create temporary tables, read the inputs and the
        parameters, and insert, update and delete in ``int_resilience_scores``.
    :param relations: where the project's models are.
    :param since: the first as-of at which a row may wait; by default every row is looked at.
    :param chunk_rows: rows held in memory at a time.
    :param report: is given a line of progress for each chunk.
    :raises StepError: a relation is missing or does not keep the contract; nothing was changed.
    :raises psycopg.Error: the database failed; nothing was changed.
    """
    started = time.monotonic()
    with one_transaction(connection) as cursor:
        require_relations(
            cursor, relations, ("int_scoring_parameters", "int_resilience_inputs", "int_resilience_scores")
        )
        require_published_parameters(cursor, relations)
        parameters, spelling = read_parameters(cursor, relations)
        waiting, orphaned = _find_differences(cursor, relations, spelling, since)
        written = _score(cursor, relations, waiting, parameters, chunk_rows, report) if waiting else 0
        deleted = _delete_orphans(cursor, relations) if orphaned else 0
    if written + deleted >= ANALYZE_ROWS:
        analyze(connection, relations["int_resilience_scores"])
    return StepResult(waiting, written, deleted, time.monotonic() - started)


def read_parameters(cursor: psycopg.Cursor, relations: Relations) -> tuple[Parameters, str]:
    """Read the step's parameters from ``int_scoring_parameters``.

    :returns: the numbers, and their published spelling as the inputs have it in ``step_parameters``.
    :raises StepError: one is missing or not a number.
    """
    values = read_parameter_texts(cursor, relations, Parameters._fields)
    numbers = []
    for name in Parameters._fields:
        try:
            numbers.append(float(values[name] or ""))
        except (KeyError, TypeError, ValueError) as error:
            raise StepError(
                f"int_scoring_parameters: {name} is {values.get(name, 'missing')!r}, "
                "where the resilience step needs a number.",
                "Rebuild it: dbt build --select int_scoring_parameters",
            ) from error
    return Parameters(*numbers), "|".join(str(values[name]) for name in Parameters._fields)


def compute(counts: Integers, mttr_hours: Floats, rho: Floats, parameters: Parameters) -> dict[str, Numbers]:
    """Drift and R of n rows.

    :param counts: (n, 60) counts: per metric, in the order of ``METRICS``, recent then baseline, 10 bins each.
    :param mttr_hours: (n,) hours.
    :param rho: (n,) shares.
    :returns: (n,) arrays by the names of their columns in ``int_resilience_scores``; NaN for not measurable.
    """
    histograms = counts.reshape(-1, len(METRICS), 2, N_BINS)
    drifted = drift(
        histograms[:, :, 0],
        histograms[:, :, 1],
        parameters.drift_pseudo_count,
        int(parameters.drift_min_sample),
    )
    r_score = resilience_score(
        drifted.mean,
        mttr_hours,
        rho,
        parameters.mttr_scale_hours,
        parameters.norm_k,
        parameters.norm_x0,
    )
    return {
        **dict(zip(DELTAS, drifted.per_metric.T, strict=True)),
        "delta_drift": drifted.mean,
        "n_measured_metrics": drifted.n_measured,
        "r_score": r_score,
    }


# --- In the database -----------------------------------------------------------------------------------------------


def _find_differences(
    cursor: psycopg.Cursor, relations: Relations, parameters: str, since: datetime | None
) -> tuple[int, int]:
    """Put what differs between inputs and scores into the temporary table ``ciris_differences``.

    That is, waiting rows numbered from 1 in ``row_id``, and scores without inputs, with null there. A row's six
    histograms travel as one array of 60 counts.

    :returns: how many rows are waiting, and how many scores are without inputs.
    :param parameters: as waiting rows must have them in ``step_parameters``.
    :raises StepError: a waiting row does not keep the contract, or was made for other parameters.
    """
    histograms = sql.SQL(" || ").join(
        sql.SQL("inputs.{}::bigint[]").format(sql.Identifier(f"{metric}_{window}"))
        for metric in METRICS
        for window in ("recent", "baseline")
    )
    cursor.execute(
        sql.SQL("""
        create temporary table ciris_differences on commit drop as
        select
            {key},
            case
                when inputs.agent_id_hash is not null
                    then count(inputs.agent_id_hash) over (rows unbounded preceding)
            end as row_id,
            inputs.inputs_digest,
            inputs.step_parameters,
            {histograms} as counts,
            inputs.mttr_hours::double precision as mttr_hours,
            inputs.rho_regression::double precision as rho_regression
        from (select * from {inputs} where as_of >= {since}) as inputs
        full join (select * from {scores} where as_of >= {since}) as scores using ({key})
        where scores.agent_id_hash is null or scores.inputs_digest is distinct from inputs.inputs_digest
        """).format(
            histograms=histograms,
            inputs=relations["int_resilience_inputs"],
            scores=relations["int_resilience_scores"],
            key=column_list(KEY),
            since=sql.Literal(since or "-infinity"),
        )
    )
    cursor.execute("create unique index on ciris_differences (row_id)")
    cursor.execute("analyze ciris_differences")
    cursor.execute(
        """
        select
            count(row_id),
            count(*) filter (where row_id is null),
            count(row_id) filter (
                where num_nulls(as_of, window_days, inputs_digest, counts, mttr_hours, rho_regression) > 0
                or cardinality(counts) <> %s
                or array_position(counts, null) is not null
                or 0 > any (counts)
            ),
            count(row_id) filter (where step_parameters is distinct from %s)
        from ciris_differences
        """,
        [N_COUNTS, parameters],
    )
    waiting, orphaned, malformed, foreign = one_row(cursor)
    if foreign:
        raise StepError(
            f"{foreign} rows of int_resilience_inputs were made for other parameters than those in "
            "int_scoring_parameters: a run with others did not get as far as its inputs.",
            FIRST_HALF_HINT,
        )
    if malformed:
        raise StepError(
            f"{malformed} rows of int_resilience_inputs hold a null, a negative count, or histograms "
            f"that do not have {N_BINS} bins.",
            "Rebuild it: dbt build --select int_resilience_inputs",
        )
    return waiting, orphaned


def _score(
    cursor: psycopg.Cursor,
    relations: Relations,
    waiting: int,
    parameters: Parameters,
    chunk_rows: int,
    report: Report,
) -> int:
    """Compute the waiting rows chunk by chunk into ``ciris_results``, then upsert them; return how many."""
    columns = sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(column_type))
        for name, column_type in _RESULT_TYPES.items()
    )
    cursor.execute(sql.SQL("create temporary table ciris_results ({}) on commit drop").format(columns))
    for first in range(1, waiting + 1, chunk_rows):
        last = min(first + chunk_rows - 1, waiting)
        row_ids, counts, mttr_hours, rho = _read_chunk(cursor, first, last)
        _write_chunk(cursor, row_ids, compute(counts, mttr_hours, rho, parameters))
        report(f"resilience: {last:,} of {waiting:,} rows computed")
    cursor.execute("analyze ciris_results")

    written = ("inputs_digest", *DELTAS, "delta_drift", "n_measured_metrics", "r_score", "computed_at")
    cursor.execute(
        sql.SQL("""
        insert into {scores} ({key}, {written})
        select {key}, inputs_digest, {deltas}, delta_drift, n_measured_metrics, r_score, now()
        from ciris_differences
        inner join ciris_results using (row_id)
        on conflict ({key}) do update set ({written}) = row({excluded})
        """).format(
            scores=relations["int_resilience_scores"],
            key=column_list(KEY),
            written=column_list(written),
            deltas=sql.SQL(", ").join(sql.SQL("nullif({}, 'NaN')").format(sql.Identifier(d)) for d in DELTAS),
            excluded=column_list(written, of="excluded"),
        )
    )
    return cursor.rowcount


def _delete_orphans(cursor: psycopg.Cursor, relations: Relations) -> int:
    """Delete the scores whose inputs are gone; return how many."""
    cursor.execute(
        sql.SQL("""
        delete from {scores}
        where ({key}) in (select {key} from ciris_differences where row_id is null)
        """).format(scores=relations["int_resilience_scores"], key=column_list(KEY))
    )
    return cursor.rowcount


def _read_chunk(cursor: psycopg.Cursor, first: int, last: int) -> tuple[Integers, Integers, Floats, Floats]:
    """Waiting rows ``first`` to ``last``: number, (n, 60) counts, MTTR in hours and ρ."""
    query = """
        copy (
            select row_id, counts, mttr_hours, rho_regression from ciris_differences
            where row_id between %s and %s
        ) to stdout (format binary)
        """
    with cursor.copy(query, [first, last]) as copy:
        copy.set_types(["int8", "int8[]", "float8", "float8"])
        row_ids, counts, mttr_hours, rho = zip(*copy.rows(), strict=True)
    return (
        np.array(row_ids, np.int64),
        np.array(counts, np.int64),
        np.array(mttr_hours, np.float64),
        np.array(rho, np.float64),
    )


def _write_chunk(cursor: psycopg.Cursor, row_ids: Integers, results: dict[str, Numbers]) -> None:
    """Append the results, by column, to ``ciris_results``."""
    query = sql.SQL("copy ciris_results ({}) from stdin (format binary)").format(column_list(_RESULT_TYPES))
    columns = {"row_id": row_ids, **results}
    with cursor.copy(query) as copy:
        copy.set_types(list(_RESULT_TYPES.values()))
        for row in zip(*(columns[name].tolist() for name in _RESULT_TYPES), strict=True):
            copy.write_row(row)
