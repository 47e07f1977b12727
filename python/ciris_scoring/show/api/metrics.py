"""Prometheus metrics: age of the publication, outcome of the last run, agents and alerts."""

from collections import Counter as Count
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from itertools import product

from fastapi import APIRouter
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Gauge,
    generate_latest,
)
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from ciris_scoring.marts import scores
from ciris_scoring.marts.alerts import alerts
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.reference import categories
from ciris_scoring.marts.runs import OUTCOMES, last_run, read_publication
from ciris_scoring.marts.verdict import VERDICTS
from ciris_scoring.show.api.endpoints import TheAnswers
from ciris_scoring.show.api.problems import Problem

router = APIRouter(include_in_schema=False)


@router.get("/metrics")
async def metrics(answers: TheAnswers) -> Response:
    """Serve the metrics. If the marts cannot be read, the metrics of the scores are missing."""
    registry = CollectorRegistry()
    gauge = partial(Gauge, registry=registry)
    readable = gauge("ciris_scoring_marts_readable", "1 if the marts can be read, 0 if not.")
    gauge("ciris_scoring_build_info", "1, labelled by version.", ["version"]).labels(version("ciris-scoring")).set(1)
    try:
        await run_in_threadpool(answers.read, lambda marts: _read(marts, gauge))
        readable.set(1)
    except Problem:
        readable.set(0)
    headers = {"Cache-Control": "no-store"}
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST, headers=headers)


def _read(marts: Marts, gauge: Callable[..., Gauge]) -> None:
    publication = read_publication(marts)
    now = datetime.now(UTC)
    if publication.scored_at is not None and publication.as_of is not None:
        since = "Seconds since the newest published score was computed."
        age = gauge("ciris_scoring_publication_age_seconds", since)
        age.set((now - publication.scored_at).total_seconds())
        data_age = gauge("ciris_scoring_data_age_seconds", "Seconds since the newest as-of.")
        data_age.set((now - publication.as_of).total_seconds())
        _read_fleet(marts, publication.as_of, publication.window_days, gauge)
    raised = gauge(
        "ciris_scoring_alerts",
        "Alerts at the newest as-of, by kind, severity and window.",
        ["kind", "severity", "window_days"],
    )
    standing = [] if publication.as_of is None else alerts(marts, publication.as_of)
    for labels, n in Count((a.kind, a.severity, a.window_days) for a in standing).items():
        raised.labels(*labels).set(n)
    run = last_run(marts)
    if run is not None:
        meaning = "1 for the outcome of the last run, 0 otherwise."
        became = gauge("ciris_scoring_last_run", meaning, ["outcome"])
        for outcome in OUTCOMES:
            became.labels(outcome).set(outcome == run.outcome)


def _read_fleet(marts: Marts, as_of: datetime, windows: list[int], gauge: Callable[..., Gauge]) -> None:
    agents = gauge(
        "ciris_scoring_agents",
        "Agents at the newest as-of, by category (none: too few traces; no_traces: silent) and window.",
        ["category", "window_days"],
    )
    names = [category.category for category in categories(marts)]
    for window_days in windows:
        capacity = scores.capacity(marts, as_of, window_days)
        if capacity is not None:
            for name in names:
                n = getattr(capacity, f"n_{name}", None)
                if n is not None:  # the mart does not count categories that a user added to the seed
                    agents.labels(name, window_days).set(n)
            agents.labels("none", window_days).set(capacity.n_insufficient_data)
            agents.labels("no_traces", window_days).set(capacity.n_no_traces)
    verdicts = gauge(
        "ciris_scoring_verdicts",
        "Agents at the newest as-of, by published verdict and window.",
        ["verdict", "window_days"],
    )
    query = "select verdict, window_days, count(*) as n from {fct_verdicts} where as_of = %(as_of)s group by 1, 2"
    counted = {(row["verdict"], row["window_days"]): row["n"] for row in marts.dicts(query, {"as_of": as_of})}
    for key in product(VERDICTS, windows):
        verdicts.labels(*key).set(counted.get(key, 0))
