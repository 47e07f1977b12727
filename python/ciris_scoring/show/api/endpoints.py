"""The endpoints of the API: parameters of requests, and the answers, which are documents of `show.view`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import WithJsonSchema
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from ciris_scoring.database import as_of as as_of_time
from ciris_scoring.errors import InputError
from ciris_scoring.kinds.components import COMPONENT_ROWS
from ciris_scoring.marts.evidence import DEFERRALS, RULES, UNITS, judged_deferrals, read_evidence
from ciris_scoring.marts.history import histories
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.reference import FACTOR_WORDS
from ciris_scoring.marts.runs import Publication, read_publication
from ciris_scoring.marts.score import Score
from ciris_scoring.marts.scores import components, non_exempt_traces
from ciris_scoring.names import EXEMPT_ACTIONS, FACTORS, NON_EXEMPT_ACTIONS
from ciris_scoring.show import view
from ciris_scoring.show.api import models
from ciris_scoring.show.api.database import CSV, JSON, Answers
from ciris_scoring.show.api.models import described, problems
from ciris_scoring.show.api.problems import LONGEST_SHOWN, Problem, bad_parameter, shown
from ciris_scoring.show.formats import json_text, table_text
from ciris_scoring.show.view import Chosen, Document

MOST_DAYS = 400
DEFAULT_DAYS = 30
LENS_NAMES = {one.component: one.lens_name for one in COMPONENT_ROWS if one.lens_name}
"""Names of components in the lens API by their names in the marts, for components whose two names differ."""
ORDERS: Mapping[str, Callable[[Score], Any] | None] = {
    "composite_score": lambda score: 1.0 if score.capacity_score is None else -score.capacity_score,
    "attention": None,
    "agent_name": lambda score: score.agent_name or score.agent_id_hash,
}
"""Sort keys of the fleet by their names; None for the order of the document."""
LENS_PARAMETERS = {
    "lambda_C": "lambda_c",
    "mu_C": "mu_c",
    "decay_rate": "decay_per_day",
    "signal_weight": "w_corroborated",
}
# Components that have evidence.
if TYPE_CHECKING:
    ComponentName: TypeAlias = str
else:
    ComponentName = Literal[tuple(sorted({*RULES, DEFERRALS}))]

router = APIRouter()
api = APIRouter(prefix="/api/v1", tags=["scoring"])

AgentId = Annotated[
    str,
    Path(
        description="The agent's `agent_id_hash`, the beginning of this hash, its name, its label, or a former name "
        "that no agent has now. The text must match exactly one agent. `hash:` and a whole hash always do.",
        min_length=1,
        examples=["4107c26fee8baae4", "Link", "Link (4107c26f)"],
    ),
]
A_TIME = {"anyOf": [{"type": "string", "format": "date"}, {"type": "string", "format": "date-time"}]}
AskedAsOf = Annotated[
    str | None,
    Query(description="As-of in ISO 8601, a day or a time. The default is the newest.", examples=["2026-06-15"]),
    WithJsonSchema(A_TIME),
]
AskedWindow = Annotated[
    int | None,
    Query(
        ge=1,
        le=10_000,
        description="Published window in days. The default is that of the first permission.",
        examples=[7],
    ),
]
AskedThreshold = Annotated[
    float | None,
    Query(ge=0, le=1, description="Required steady score. The default is that of the permission."),
]
AskedPermission = Annotated[
    str | None,
    Query(
        description="Name of a permission, which decides threshold and window. The default is the first permission "
        "with the requested threshold and window.",
        max_length=200,
    ),
]
Format = Annotated[Literal["json", "csv"], Query(alias="format", description="Format of the answer.")]


async def _answers(request: Request) -> Answers:
    answers: Answers = request.app.state.answers
    return answers


TheAnswers = Annotated[Answers, Depends(_answers)]


async def known_parameters(request: Request) -> None:
    """Refuse unknown query parameters."""
    dependants = [request.scope["route"].dependant]
    for dependant in dependants:
        dependants += dependant.dependencies
    known = [field.alias for dependant in dependants for field in dependant.query_params]
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        name, message = unknown[0][:LONGEST_SHOWN], f"is not a parameter here; there are {', '.join(known) or 'none'}."
        of = {"parameter": name, "message": message}
        raise Problem("bad-parameter", f"{shown(name)} {message}", errors=[of], allowed=known)


# --- parameters of requests ------------------------------------------------------------------------------------------


def time_asked(name: str, text: str | None) -> datetime | None:
    """Parse a time in a request, or raise a Problem."""
    if text is None:
        return None
    try:
        return as_of_time.parse_time(text, name)
    except InputError:
        example = "2026-06-15 or 2026-06-15T06:00:00Z"
        message = f"is {shown(text)}, which is not an ISO 8601 time, such as {example}."
        raise bad_parameter(name, message) from None


@dataclass(frozen=True)
class Asked:
    """A request for scores. A window of None means that of the permission, an as-of of None the newest."""

    request: Request
    answers: Answers
    publication: Publication
    window_days: int | None
    as_of: datetime | None

    async def answer(self, build: Callable[[Marts], Document]) -> Response:
        """Return the answer that `build` creates, from the cache if possible."""
        return await self.answers.answer(
            self.request, self.publication, lambda marts: json_text(build(marts), indent=None)
        )

    async def table(self, build: Callable[[Marts], Sequence[Document]]) -> Response:
        """Return the rows that `build` creates as CSV, from the cache if possible."""
        media_type = f"{CSV}; charset=utf-8"
        return await self.answers.answer(
            self.request, self.publication, lambda marts: table_text(build(marts)), media_type
        )

    def chosen(self, marts: Marts, threshold: float | None = None, permission: str | None = None) -> Chosen:
        """Look up what is asked for."""
        return view.choose(marts, self.window_days, self.as_of, threshold, permission)

    def of_agent(self, marts: Marts, text: str) -> tuple[Score, Document]:
        """Return the score of the agent that a text identifies, and the members of an answer about the agent."""
        _, score = view.choose_agent(marts, text, self.window_days, self.as_of)
        return score, {
            "agent_id_hash": score.agent_id_hash,
            "agent_name": score.agent_name or score.agent_id_hash,
            "as_of": score.as_of,
            "window_days": score.window_days,
        }


async def _asked(
    request: Request, answers: TheAnswers, window_days: AskedWindow = None, as_of: AskedAsOf = None
) -> Asked:
    return Asked(request, answers, await answers.publication(), window_days, time_asked("as_of", as_of))


TheAsked = Annotated[Asked, Depends(_asked)]


# --- the names of the lens API ---------------------------------------------------------------------------------------


def in_lens(document: Document) -> Document:
    """Add the names of the lens API to a score. Clients of the lens expect a text as name."""
    name = document["agent_name"] or document["agent_id_hash"]
    return {**document, "agent_name": name, "composite_score": document["capacity_score"]}


def with_factors(marts: Marts, documents: Sequence[Document]) -> list[Document]:
    """Add the names, factors and metadata of the lens API to scores of one as-of and window."""
    if not documents:
        return []
    hashes = [one["agent_id_hash"] for one in documents]
    key = (marts, hashes, documents[0]["as_of"], documents[0]["window_days"])
    parts: dict[tuple[str, str], dict[str, float | None]] = {}
    for part in components(*key):
        name = LENS_NAMES.get(part.component, part.component)
        parts.setdefault((part.agent_id_hash, part.factor), {})[name] = part.component_value
    non_exempt = non_exempt_traces(*key)
    return [
        in_lens(one)
        | {
            "factors": {
                name: {
                    "score": value,
                    "components": parts.get((one["agent_id_hash"], name), {}),
                    "trace_count": one["n_traces"],
                    "confidence": one["confidence"],
                }
                for name, value in view.factors_of(one).items()
            },
            "metadata": {
                "window_start": one["window_start"],
                "window_end": one["as_of"],
                "total_traces": one["n_traces"],
                "non_exempt_traces": non_exempt.get(one["agent_id_hash"], 0),
            },
        }
        for one in documents
    ]


def explained(document: Document) -> Document:
    """Add the name, formula and description of each factor, and the non-exempt actions."""
    for name, words in FACTOR_WORDS.items():
        document["factors"][name] |= {
            "name": words.name,
            "formula": words.formula,
            "description": words.description,
        }
    document["metadata"]["non_exempt_actions"] = NON_EXEMPT_ACTIONS
    return document


# --- scores -----------------------------------------------------------------------------------------------------------


@api.get(
    "/scoring/capacity/fleet",
    summary="The fleet",
    **described("fleet", models.Fleet, problems(404), csv=True),
)
async def fleet(
    asked: TheAsked,
    threshold: AskedThreshold = None,
    permission: AskedPermission = None,
    sort: Annotated[
        Literal["composite_score", "attention", "agent_name"],
        Query(description="Order of `agents`: the highest score first, the most urgent first, or by name."),
    ] = "composite_score",
    form: Format = "json",
) -> Response:
    """The document of the fleet at an as-of. The CSV has the rows of `agents`."""

    def found(marts: Marts) -> tuple[Chosen, list[Score]]:
        chosen = asked.chosen(marts, threshold, permission)
        scores = view.fleet_scores(marts, chosen)  # the most urgent first
        order = ORDERS[sort]
        return chosen, scores if order is None else sorted(scores, key=order)

    def build(marts: Marts) -> Document:
        chosen, scores = found(marts)
        document = view.fleet_document(marts, chosen, scores, days=DEFAULT_DAYS)
        counts = document["fleet"] or {}
        return document | {
            "timestamp": datetime.now(UTC),
            "agent_count": len(scores),
            "agents": with_factors(marts, document["agents"]),
            "summary": {name: counts.get(f"n_{name}", 0) for name in models.Summary.model_fields},
        }

    def rows(marts: Marts) -> list[Document]:
        chosen, scores = found(marts)
        return view.brief_documents(marts, scores, chosen)

    return await (asked.table(rows) if form == "csv" else asked.answer(build))


@api.get(
    "/scoring/capacity/{agent_id:path}",
    summary="The score of an agent",
    **described("capacity", models.Capacity, problems(404, 409)),
)
async def capacity(
    agent_id: AgentId, asked: TheAsked, threshold: AskedThreshold = None, permission: AskedPermission = None
) -> Response:
    """Score and verdict of an agent at an as-of. An agent that is called `fleet` is found only by its hash."""

    def build(marts: Marts) -> Document:
        chosen, score = view.choose_agent(marts, agent_id, asked.window_days, asked.as_of, threshold, permission)
        [document] = with_factors(marts, [view.of_score(score, chosen.permission)])
        return document

    return await asked.answer(build)


@api.get(
    "/scoring/factors/{agent_id:path}",
    summary="The factors of a score",
    **described("factors", models.Factors, problems(404, 409)),
)
async def factors(
    agent_id: AgentId, asked: TheAsked, threshold: AskedThreshold = None, permission: AskedPermission = None
) -> Response:
    """The document of an agent: the five factors of its score, components, losses, changes and history."""

    def build(marts: Marts) -> Document:
        chosen, score = view.choose_agent(marts, agent_id, asked.window_days, asked.as_of, threshold, permission)
        [document] = with_factors(marts, view.agent_documents(marts, [score], chosen, days=DEFAULT_DAYS))
        return explained(document)

    return await asked.answer(build)


# --- history ----------------------------------------------------------------------------------------------------------


@api.get(
    "/scoring/history/{agent_id:path}",
    summary="Scores over time",
    **described("history", models.History, problems(404, 409), csv=True),
)
async def history(
    agent_id: AgentId,
    asked: TheAsked,
    days: Annotated[
        int, Query(ge=1, le=MOST_DAYS, description="Days of history, up to the as-of.", examples=[30])
    ] = DEFAULT_DAYS,
    form: Format = "json",
) -> Response:
    """Scores of an agent at the published as-ofs of some days, each with its five factors."""

    def found(marts: Marts) -> tuple[Score, Document, list[Document]]:
        score, of_agent = asked.of_agent(marts, agent_id)
        key = (marts, [score.agent_id_hash], score.window_days)
        points = histories(*key, first=score.as_of - timedelta(days=days), last=score.as_of)[score.agent_id_hash]
        return score, of_agent, list(map(asdict, points))

    def build(marts: Marts) -> Document:
        score, of_agent, points = found(marts)
        return of_agent | {
            "period_days": days,
            "current_score": score.capacity_score,
            "current_category": score.category,
            "history": list(map(_point, points)),
        }

    return await (asked.table(lambda marts: found(marts)[2]) if form == "csv" else asked.answer(build))


def _point(row: Document) -> Document:
    return in_lens(row) | {"factors": {name: row[column] for name, column in FACTORS.items()}}


# --- alerts and parameters --------------------------------------------------------------------------------------------


@api.get("/scoring/alerts", summary="Alerts", **described("alerts", models.Alerts, problems(404)))
async def alerts(
    asked: TheAsked,
    threshold: Annotated[
        float | None,
        Query(ge=0, le=1, description="Return agents with a lower score. By default low_capacity_threshold."),
    ] = None,
    permission: AskedPermission = None,
) -> Response:
    """Agents below a threshold, the most urgent first, and alerts and red flags at the as-of."""

    def build(marts: Marts) -> Document:
        most = read_publication(marts).low_capacity_threshold if threshold is None else threshold
        chosen = asked.chosen(marts, permission=permission)
        scores = view.fleet_scores(marts, chosen)
        below = [score for score in scores if score.capacity_score is not None and score.capacity_score < most]
        hashes = [score.agent_id_hash for score in below]
        non_exempt = non_exempt_traces(marts, hashes, chosen.as_of, chosen.window_days) if chosen.as_of else {}
        return view.raised_document(marts, chosen) | {
            "timestamp": datetime.now(UTC),
            "permission": chosen.permission.name,
            "threshold": most,
            "alert_count": len(below),
            "agents": [
                in_lens(view.of_score(score, chosen.permission))
                | {"non_exempt_traces": non_exempt.get(score.agent_id_hash, 0)}
                for score in below
            ],
        }

    return await asked.answer(build)


@api.get("/scoring/parameters", summary="Parameters", **described("parameters", models.Parameters, problems()))
async def parameters(request: Request, answers: TheAnswers) -> Response:
    """Parameters, categories and windows that scores are computed with."""

    def build(marts: Marts) -> str:
        publication = read_publication(marts)
        found = view.parameters_document(marts)
        values = {one["parameter_name"]: one["parameter_value"] for one in found["parameters"]}
        shortest = found["windows"][0]
        return json_text(
            {
                "parameters": {
                    **{theirs: float(values[ours]) for theirs, ours in LENS_PARAMETERS.items()},
                    "min_traces": int(values["min_traces"]),
                    "default_window_days": shortest["window_days"],
                    "baseline_window_days": shortest["baseline_days"],
                    "coherence_window_days": shortest["coherence_days"],
                },
                "parameter_set_id": publication.parameter_set_id,
                "published": found["parameters"],
                "non_exempt_actions": NON_EXEMPT_ACTIONS,
                "exempt_actions": EXEMPT_ACTIONS,
                "categories": {one["category"]: one["guidance"] for one in found["categories"]},
                "category_bounds": found["categories"],
                "windows": found["windows"],
            },
            indent=None,
        )

    return await answers.answer(request, await answers.publication(), build)


# --- evidence ---------------------------------------------------------------------------------------------------------


@api.get(
    "/scoring/evidence/{agent_id:path}",
    summary="The traces behind a component",
    **described("evidence", models.Evidence, problems(404, 409), csv=True),
)
async def evidence(
    agent_id: AgentId,
    asked: TheAsked,
    component: Annotated[
        ComponentName,
        Query(
            description="Name of the component in the marts. No single trace lowers delta_drift or ece.",
            examples=["i_chain"],
        ),
    ],
    limit: Annotated[
        int | None,
        Query(ge=1, le=1000, description="Maximum number of traces. By default 100, and all as CSV."),
    ] = None,
    form: Format = "json",
) -> Response:
    """The newest traces that lowered a component of a score, or the deferrals behind q_deferral; all as CSV."""
    is_csv, is_deferral = form == "csv", component == DEFERRALS
    most = limit or (None if is_csv else 100)

    def build(marts: Marts) -> Document:
        score, of_agent = asked.of_agent(marts, agent_id)
        key = (score.agent_id_hash, score.as_of, score.window_start)
        deferrals = judged_deferrals(marts, *key) if is_deferral else []
        traces = [] if is_deferral else read_evidence(marts, component, *key, limit=most)
        return of_agent | {
            "window_start": score.window_start,
            "component": component,
            "lowered_by_unit": "deferrals" if is_deferral else UNITS.get(component, "traces"),
            "traces": list(map(view.of_trace, traces)),
            "deferrals": list(map(asdict, deferrals)),
        }

    def rows(marts: Marts) -> list[Document]:
        document = build(marts)
        of_row = {name: document[name] for name in ("agent_id_hash", "agent_name", "as_of", "window_days")}
        return [of_row | one for one in document["deferrals" if is_deferral else "traces"]]

    return await (asked.table(rows) if is_csv else asked.answer(build))


# --- the server itself ------------------------------------------------------------------------------------------------


@router.get("/healthz", summary="Is the process up?", tags=["server"], **described("healthz", models.Health, {}))
async def healthz() -> Response:
    """Whether the process runs. The endpoint does not need a key."""
    return _unkept({"status": "ok"})


@router.get(
    "/readyz",
    summary="Can scores be served?",
    tags=["server"],
    **described("readyz", models.Ready, problems()),
)
async def readyz(answers: TheAnswers) -> Response:
    """Whether the database can be reached and the marts exist, with the age of the newest as-of. No key is needed."""

    def read(marts: Marts) -> Publication:
        if missing := marts.missing():
            raise Problem("not-published", f"There is no {', '.join(missing)}: score the fleet first.")
        return read_publication(marts)

    publication = await run_in_threadpool(answers.read, read)
    as_of = publication.as_of
    return _unkept(
        {
            "status": "ready",
            "as_of": as_of,
            "as_of_age_seconds": None if as_of is None else (datetime.now(UTC) - as_of).total_seconds(),
            "scored_at": publication.scored_at,
            "parameter_set_id": publication.parameter_set_id,
        }
    )


def _unkept(document: Mapping[str, Any]) -> Response:
    return Response(json_text(document, indent=None), media_type=JSON, headers={"Cache-Control": "no-store"})


router.include_router(api)
