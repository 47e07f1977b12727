"""Routes of the web pages. Pages are cached like API answers, but for at most a minute."""

import time
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BeforeValidator, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from ciris_scoring.marts.marts import Marts
from ciris_scoring.show.api.database import CSV
from ciris_scoring.show.api.endpoints import AskedAsOf, TheAnswers, time_asked
from ciris_scoring.show.api.problems import Problem
from ciris_scoring.show.pages import agent, base, fleet, other
from ciris_scoring.show.pages.links import ServedLinks

HTML = "text/html; charset=utf-8"
KEPT_SECONDS = 60
"""Maximum age of a page in seconds, because pages say how old the verdicts are."""
# Each page contains a content security policy for its own style and script. Only a header can forbid frames.
POLICY = {"Content-Security-Policy": "frame-ancestors 'none'"}

router = APIRouter(include_in_schema=False)
EMPTY_IS_NONE = BeforeValidator(lambda text: text or None)
"""Validator for a parameter that a form may submit as an empty text."""
Threshold = Annotated[Annotated[float, Field(ge=0, le=1)] | None, EMPTY_IS_NONE, Query()]
WindowDays = Annotated[int | None, Query(ge=1, le=10_000)]
Days = Annotated[int | None, Query(ge=1, le=3_660)]


async def _at(
    window_days: WindowDays = None, as_of: AskedAsOf = None, threshold: Threshold = None, days: Days = None
) -> dict[str, Any]:
    moment = time_asked("as_of", as_of or None)
    return {"window_days": window_days, "as_of": moment, "threshold": threshold, "days": days}


At = Annotated[dict[str, Any], Depends(_at)]
"""Parameters of pages of scores: window, as-of, threshold, and days of history. Other parameters of the address belong
to the script of the page."""


async def _answer(
    request: Request, answers: TheAnswers, page: Callable[..., str], media_type: str = HTML, **asked: Any
) -> Response:
    links = ServedLinks(as_of=asked.get("as_of"), days=asked.get("days"), threshold=asked.get("threshold"))

    def build(marts: Marts) -> str:
        return page(marts.connection, marts.relations, links=links, **asked)

    try:
        try:
            publication = await answers.publication()
        except Problem as problem:
            if problem.kind != "not-published":
                raise
            # Without scores, the page describes the last run.
            body = await run_in_threadpool(answers.read, build)
            return Response(body, media_type=HTML, headers={"Cache-Control": "no-store", **POLICY})
        minute = int(time.time() // KEPT_SECONDS)
        key = ("page", minute, page.__name__, *asked.values())
        response = await answers.answer(request, publication, build, media_type, key)
    except base.Instead as instead:
        return Response(instead.html, instead.status, {"Cache-Control": "no-store", **POLICY}, HTML)
    except Problem as problem:
        return _problem_page(request, problem)
    response.headers.update(POLICY)
    return response


def written(request: Request, problem: Problem) -> Response:
    """Return a problem as a page if the client accepts HTML, otherwise as a problem document."""
    is_page = "text/html" in request.headers.get("accept", "")
    return _problem_page(request, problem) if is_page else problem.response()


def _problem_page(request: Request, problem: Problem) -> Response:
    text = base.message_page(problem.title, [problem.detail], way_back=_up(request))
    headers = {"Cache-Control": "no-store", **problem.headers, **POLICY}
    return Response(text, problem.status, headers, HTML)


def _up(request: Request) -> str:
    """Return the relative path to the folder of the pages, because a proxy may serve them under any prefix."""
    return "../" * (request.scope["raw_path"].count(b"/") - 1) or "./"


@router.get("/")
async def _fleet_page(request: Request, answers: TheAnswers, at: At) -> Response:
    return await _answer(request, answers, fleet.fleet_page, **at)


@router.get("/factors.csv")
async def _factors_csv(request: Request, answers: TheAnswers, at: At) -> Response:
    response = await _answer(request, answers, fleet.factors_csv, f"{CSV}; charset=utf-8", **at)
    if response.status_code == 200:
        response.headers["Content-Disposition"] = 'attachment; filename="factors.csv"'
    return response


@router.get("/agent")
async def _agent_page(request: Request, answers: TheAnswers, agent_id: str, at: At) -> Response:
    return await _answer(request, answers, agent.agent_page, agent=agent_id, **at)


@router.get("/evidence")
async def _evidence_page(request: Request, answers: TheAnswers, agent_id: str, component: str, at: At) -> Response:
    return await _answer(request, answers, agent.evidence_page, agent=agent_id, component=component, **at)


@router.get("/runs")
async def _runs_page(request: Request, answers: TheAnswers) -> Response:
    return await _answer(request, answers, other.runs_page)


@router.get("/alerts")
async def _alerts_page(request: Request, answers: TheAnswers, at: At) -> Response:
    return await _answer(request, answers, fleet.alerts_page, **at)


@router.get("/glossary")
async def _glossary_page(request: Request, answers: TheAnswers) -> Response:
    return await _answer(request, answers, other.glossary_page)


@router.get("/parameters")
async def _parameters_page(request: Request, answers: TheAnswers, window_days: WindowDays = None) -> Response:
    return await _answer(request, answers, other.parameters_page, window_days=window_days)


@router.get("/docs")
def _docs(request: Request) -> Response:
    """Serve the description of the API, without JavaScript or other servers."""
    headers = {"Cache-Control": "no-cache", **POLICY}
    return Response(other.api_page(request.app.openapi()), media_type=HTML, headers=headers)
