"""The resilience step: from histograms, MTTR and ρ in the database to δ_drift and R, and back.

dbt builds ``int_resilience_inputs`` and owns the table ``int_resilience_scores``, both in the schema
``<target schema>_intermediate``. A row of inputs *waits* while no row of scores has the same key (agent, as-of,
window) and the same digest of the inputs. The step computes the waiting rows, writes them, and deletes the scores
whose inputs are gone, in one transaction: afterwards there is one row of scores per row of inputs, or nothing has
changed. Running it again finds nothing waiting.

Only numbers travel, as PostgreSQL's binary COPY of rows of one fixed width, which numpy reads and writes without a
loop; the keys stay in the database, in a temporary table that numbers the waiting rows. Memory is bounded by the
chunk, not by the number of rows.
"""

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import IsolationLevel, sql

from ciris_scoring.connection import one_row, table_exists
from ciris_scoring.errors import StepError
from ciris_scoring.resilience import N_BINS, drift, resilience_score

METRICS = ("csdma_plausibility_score", "dsdma_domain_alignment", "coherence_level")
DELTAS = tuple(f"delta_{metric}" for metric in METRICS)
KEY = ("agent_id_hash", "as_of", "window_days")

CHUNK_ROWS = 20_000
"""Rows in memory at a time: about 16 MB as they arrive, and some 60 MB of working arrays."""

ANALYZE_ROWS = 1_000
"""Statistics are renewed when a run has changed at least this many rows."""

N_COUNTS = len(METRICS) * 2 * N_BINS
COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
COPY_TRAILER = b"\xff\xff"

Report = Callable[[str], None]


class Parameters(NamedTuple):
    """The published parameters that the step uses, with their names in ``int_scoring_parameters``."""

    drift_pseudo_count: float
    drift_min_sample: float
    mttr_scale_hours: float
    norm_k: float
    norm_x0: float


class StepResult(NamedTuple):
    """What one step did: rows found waiting, rows written, rows deleted, seconds."""

    waiting: int
    written: int
    deleted: int
    seconds: float


def run_step(
    connection: psycopg.Connection,
    target_schema: str,
    *,
    chunk_rows: int = CHUNK_ROWS,
    report: Report = lambda line: None,
) -> StepResult:
    """Score every waiting row of ``<target_schema>_intermediate.int_resilience_inputs``, in one transaction.

    :param connection: not inside a transaction; its role may create temporary tables, read the inputs and the
        parameters, and insert, update and delete in ``int_resilience_scores``.
    :param target_schema: schema of the dbt target.
    :param chunk_rows: rows held in memory at a time.
    :param report: is given a line of progress for each chunk.
    :raises StepError: a relation is missing or does not keep the contract; nothing was changed.
    :raises psycopg.Error: the database failed; nothing was changed.
    """
    started = time.monotonic()
    schema = f"{target_schema}_intermediate"
    connection.isolation_level = IsolationLevel.REPEATABLE_READ
    try:
        with connection.transaction(), connection.cursor() as cursor:
            _require_relations(cursor, schema)
            _require_published_parameters(cursor, schema)
            parameters, spelling = read_parameters(cursor, schema)
            waiting, orphaned = _find_differences(cursor, schema, spelling)
            written = _score(cursor, schema, waiting, parameters, chunk_rows, report) if waiting else 0
            deleted = _delete_orphans(cursor, schema) if orphaned else 0
    finally:
        if not connection.closed:
            connection.isolation_level = None
    if written + deleted >= ANALYZE_ROWS:
        with connection.transaction():
            connection.execute(sql.SQL("analyze {}").format(_scores(schema)))
    return StepResult(waiting, written, deleted, time.monotonic() - started)


def read_parameters(cursor: psycopg.Cursor, schema: str) -> tuple[Parameters, str]:
    """Read the step's parameters from ``int_scoring_parameters``.

    :returns: the numbers, and their published spelling as the inputs have it in ``step_parameters``.
    :raises StepError: one is missing or not a number.
    """
    query = sql.SQL("select parameter_name, parameter_value from {} where parameter_name = any(%s)")
    cursor.execute(query.format(sql.Identifier(schema, "int_scoring_parameters")), [list(Parameters._fields)])
    values: dict[str, str | None] = dict(cursor.fetchall())
    numbers = []
    for name in Parameters._fields:
        try:
            numbers.append(float(values[name] or ""))
        except (KeyError, TypeError, ValueError) as error:
            raise StepError(
                f"{schema}.int_scoring_parameters: {name} is {values.get(name, 'missing')!r}, "
                "where the resilience step needs a number.",
                "Rebuild it: dbt build --select int_scoring_parameters",
            ) from error
    return Parameters(*numbers), "|".join(str(values[name]) for name in Parameters._fields)


def compute(counts: NDArray, mttr_hours: NDArray, rho: NDArray, parameters: Parameters) -> dict[str, NDArray]:
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


def _inputs(schema: str) -> sql.Identifier:
    return sql.Identifier(schema, "int_resilience_inputs")


def _scores(schema: str) -> sql.Identifier:
    return sql.Identifier(schema, "int_resilience_scores")


def _columns(names: Iterable[str], of: str | None = None) -> sql.Composed:
    """List of columns, each qualified by the table ``of`` where given."""
    return sql.SQL(", ").join(sql.Identifier(*filter(None, (of, name))) for name in names)


def _require_relations(cursor: psycopg.Cursor, schema: str) -> None:
    for name in ("int_scoring_parameters", "int_resilience_inputs", "int_resilience_scores"):
        if not table_exists(cursor, schema, name):
            raise StepError(
                f"{schema}.{name} does not exist, so there is nothing to score yet.",
                "Build the first half of a run: `dbt build --selector before_resilience`; "
                "`ciris-scoring run` does it all.",
            )


def _require_published_parameters(cursor: psycopg.Cursor, schema: str) -> None:
    """Refuse the parameters of a run that was itself refused: the inputs were made with others."""
    if not table_exists(cursor, schema, "int_scoring_run"):
        return
    cursor.execute(
        sql.SQL(
            "select parameter_set_id, published_parameter_set_id from {}"
            " where parameter_set_id <> published_parameter_set_id and not is_full_refresh"
        ).format(sql.Identifier(schema, "int_scoring_run"))
    )
    refused = cursor.fetchone()
    if refused is not None:
        raise StepError(
            f"The last run's parameters (parameter_set_id {refused[0]}) are not those of the published scores "
            f"({refused[1]}), so it was refused and its inputs were not built.",
            "Run again with the published parameters, or score everything again: --full-refresh --allow-rescoring.",
        )


def _find_differences(cursor: psycopg.Cursor, schema: str, parameters: str) -> tuple[int, int]:
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
        from {inputs} as inputs
        full join {scores} as scores using ({key})
        where scores.agent_id_hash is null or scores.inputs_digest is distinct from inputs.inputs_digest
        """).format(histograms=histograms, inputs=_inputs(schema), scores=_scores(schema), key=_columns(KEY))
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
            f"{foreign} rows of {schema}.int_resilience_inputs were made for other parameters than those in "
            f"{schema}.int_scoring_parameters: a run with others did not get as far as its inputs.",
            "Build the first half of a run: `dbt build --selector before_resilience`; `ciris-scoring run` does it all.",
        )
    if malformed:
        raise StepError(
            f"{malformed} rows of {schema}.int_resilience_inputs hold a null, a negative count, or histograms "
            f"that do not have {N_BINS} bins.",
            "Rebuild it: dbt build --select int_resilience_inputs",
        )
    return waiting, orphaned


def _score(
    cursor: psycopg.Cursor,
    schema: str,
    waiting: int,
    parameters: Parameters,
    chunk_rows: int,
    report: Report,
) -> int:
    """Compute the waiting rows chunk by chunk into ``ciris_results``, then upsert them; return how many."""
    cursor.execute(
        sql.SQL("""
        create temporary table ciris_results (
            row_id bigint, {deltas}, delta_drift double precision, n_measured_metrics integer,
            r_score double precision
        ) on commit drop
        """).format(
            deltas=sql.SQL(", ").join(
                sql.SQL("{} double precision").format(sql.Identifier(d)) for d in DELTAS
            )
        )
    )
    for first in range(1, waiting + 1, chunk_rows):
        last = min(first + chunk_rows - 1, waiting)
        rows = _read_chunk(cursor, first, last)
        counts = rows["counts"]["elements"]["value"].astype(np.int64)
        results = compute(counts, rows["mttr_hours"], rows["rho_regression"], parameters)
        _write_chunk(cursor, rows["row_id"], results)
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
            scores=_scores(schema),
            key=_columns(KEY),
            written=_columns(written),
            deltas=sql.SQL(", ").join(sql.SQL("nullif({}, 'NaN')").format(sql.Identifier(d)) for d in DELTAS),
            excluded=_columns(written, of="excluded"),
        )
    )
    return cursor.rowcount


def _delete_orphans(cursor: psycopg.Cursor, schema: str) -> int:
    """Delete the scores whose inputs are gone; return how many."""
    cursor.execute(
        sql.SQL("""
        delete from {scores} as scores
        using ciris_differences as differences
        where differences.row_id is null and ({scores_key}) = ({differences_key})
        """).format(
            scores=_scores(schema),
            scores_key=_columns(KEY, of="scores"),
            differences_key=_columns(KEY, of="differences"),
        )
    )
    return cursor.rowcount


# --- Binary COPY ---------------------------------------------------------------------------------------------------
# A row is the number of its fields (2 bytes), then each field's length (4 bytes) and value, all big-endian. An array's
# value is a header of 20 bytes, then its elements, each with its length like a field. No field of ours is null or of
# varying length, so every row of a COPY has the same layout, and a whole COPY is one numpy array.


def _row_layout(**fields: np.dtype | str) -> np.dtype:
    members: list[tuple] = [("n_fields", ">i2")]
    for name, layout in fields.items():
        members += [(f"{name}_length", ">i4"), (name, layout)]
    return np.dtype(members)


_COUNTS = np.dtype([("header", "V20"), ("elements", [("length", ">i4"), ("value", ">i8")], (N_COUNTS,))])
_INPUT_ROW = _row_layout(row_id=">i8", counts=_COUNTS, mttr_hours=">f8", rho_regression=">f8")
_RESULT_ROW = _row_layout(
    row_id=">i8",
    **dict.fromkeys(DELTAS, ">f8"),
    delta_drift=">f8",
    n_measured_metrics=">i4",
    r_score=">f8",
)


def _read_chunk(cursor: psycopg.Cursor, first: int, last: int) -> NDArray:
    """Waiting rows ``first`` to ``last``, as an array of ``_INPUT_ROW``."""
    query = """
        copy (
            select row_id, counts, mttr_hours, rho_regression from ciris_differences
            where row_id between %s and %s
        ) to stdout (format binary)
        """
    with cursor.copy(query, [first, last]) as copy:
        data = b"".join(copy)
    n_rows = last - first + 1
    if len(data) != len(COPY_HEADER) + n_rows * _INPUT_ROW.itemsize + len(COPY_TRAILER):
        raise StepError(f"The database sent {len(data)} bytes for {n_rows} rows, which is not their size.")
    return np.frombuffer(data, _INPUT_ROW, count=n_rows, offset=len(COPY_HEADER))


def _write_chunk(cursor: psycopg.Cursor, row_ids: NDArray, results: dict[str, NDArray]) -> None:
    """Append the results, by column, to ``ciris_results``."""
    rows = np.empty(len(row_ids), _RESULT_ROW)
    columns = {"row_id": row_ids, **results}
    rows["n_fields"] = len(columns)
    for name, values in columns.items():
        rows[f"{name}_length"] = rows.dtype[name].itemsize
        rows[name] = values
    query = sql.SQL("copy ciris_results ({}) from stdin (format binary)").format(_columns(columns))
    with cursor.copy(query) as copy:
        copy.write(COPY_HEADER + rows.tobytes() + COPY_TRAILER)
