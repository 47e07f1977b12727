"""The endpoints of the API: parameters, and the functions that read the answers."""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.routing import APIRoute
from pydantic import WithJsonSchema
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from ciris_scoring.database import as_of as as_of_time
from ciris_scoring.errors import InputError
from ciris_scoring.marts import asking
from ciris_scoring.marts.agent import attribution
from ciris_scoring.marts.agents import all_agents
from ciris_scoring.marts.alerts import alerts as read_alerts
from ciris_scoring.marts.alerts import red_flags as read_red_flags
from ciris_scoring.marts.evidence import RULES, Deferral, judged_deferrals, read_evidence
from ciris_scoring.marts.fleet import attention
from ciris_scoring.marts.fleet import scores as read_scores
from ciris_scoring.marts.history import VerdictPeriod, verdict_periods
from ciris_scoring.marts.history import histories as read_histories
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.parameters import categories as read_categories
from ciris_scoring.marts.parameters import parameters as read_parameters
from ciris_scoring.marts.parameters import windows as read_windows
from ciris_scoring.marts.permissions import Permission, published_permission
from ciris_scoring.marts.permissions import permissions as read_permissions
from ciris_scoring.marts.publication import Publication, read_publication
from ciris_scoring.marts.quality import Issue, issues
from ciris_scoring.marts.run_state import run_records
from ciris_scoring.marts.score import Score
from ciris_scoring.marts.verdict import VERDICTS, AlertKind, RaisedName, RedFlagName, VerdictName
from ciris_scoring.marts.verdict import verdict as verdict_on
from ciris_scoring.names import EXEMPT_ACTIONS, NON_EXEMPT_ACTIONS
from ciris_scoring.show.api import models
from ciris_scoring.show.api.answers import CSV, JSON, Answers, preferred
from ciris_scoring.show.api.columns import Described
from ciris_scoring.show.api.lens import SORTED_BY, Lens, csv_of, explained, lens_name, name_of, point
from ciris_scoring.show.api.operations import described, problems
from ciris_scoring.show.api.problems import LONGEST_SHOWN, Problem, bad_parameter, shown

MOST_DAYS = 400
DEFAULT_DAYS = 30
MOST_UNKNOWN = 10
DEEPEST = 10_000_000
MIDNIGHT = datetime(1970, 1, 1, tzinfo=UTC)
EARLIEST = datetime.min.replace(tzinfo=UTC)
UNESCAPED_PLUS = re.compile(r"(T.*) (\d\d:?\d\d)$")
"""A time whose offset has a space instead of a plus sign. An unescaped plus sign in a URL means a space."""
IGNORED = "x-ignored"
"""Key in a route's `openapi_extra`. Its value is the list of parameters that the server accepts and ignores."""
LENS_PARAMETERS = {
    "lambda_C": "lambda_c",
    "mu_C": "mu_c",
    "decay_rate": "decay_per_day",
    "signal_weight": "w_corroborated",
}
QUALITY_DAYS = 14
ONE_FIELD = "|".join(models.FleetScore.model_fields)
# Components that have evidence, and keys by which the fleet can be sorted.
if TYPE_CHECKING:
    Component: TypeAlias = str
    Sort: TypeAlias = str
else:
    Component = Literal[tuple(sorted(RULES))]
    Sort = Literal[tuple(sign + name for name in ("attention", "verdict", *SORTED_BY) for sign in ("", "-"))]

Found = TypeVar("Found")
Handler = Callable[..., Awaitable[Response]]

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
After = Annotated[
    str | None,
    Query(
        description="Return the traces after the trace with this key. `next` of the previous page contains the key.",
        pattern=r"^[0-9]{1,17}\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
        examples=["1781446081031352.0e4a5780-478a-1488-d989-54cb42dd2a6b"],
    ),
]
AskedWindow = Annotated[
    int | None,
    Query(ge=1, le=10_000, description="Published window in days. The default is the shortest.", examples=[7]),
]
AskedThreshold = Annotated[
    float | None,
    Query(ge=0, le=1, description="Required steady score. The default is that of the published verdicts."),
]
AskedPermission = Annotated[
    str | None,
    Query(
        description="Name of a permission, which decides threshold and window. Without it, the first permission with "
        "the requested window decides the threshold.",
        max_length=200,
    ),
]


async def _answers(request: Request) -> Answers:
    answers: Answers = request.app.state.answers
    return answers


TheAnswers = Annotated[Answers, Depends(_answers)]


async def acceptable(request: Request) -> None:
    """Refuse requests whose Accept header does not name a media type of the answer."""
    offered = _offered(request.scope["route"])
    if preferred(request.headers.get("accept"), offered) is None:
        raise Problem("not-acceptable", f"The answer can be {' or '.join(offered)}.", allowed=offered)


def _offered(route: Any) -> list[str]:
    return list(route.responses[200]["content"])


async def known_parameters(request: Request) -> None:
    """Refuse unknown query parameters. Names that begin with "_" are allowed, because clients add them to avoid
    caches."""
    route = request.scope["route"]
    dependants = [route.dependant]
    for dependant in dependants:
        dependants += dependant.dependencies
    known = [field.alias for dependant in dependants for field in dependant.query_params]
    known += (route.openapi_extra or {}).get(IGNORED, ())
    unknown = [name for name in request.query_params if name not in known and not name.startswith("_")]
    if unknown:
        there_are = f"there are {', '.join(known)}" if known else "there is none"
        message = f"is not a parameter here; {there_are}."
        raise Problem(
            "bad-parameter",
            f"{', '.join(map(shown, unknown[:MOST_UNKNOWN]))} {message}",
            errors=[{"parameter": name[:LONGEST_SHOWN], "message": message} for name in unknown[:MOST_UNKNOWN]],
            allowed=known,
        )


def _next(request: Request, **more: str | int) -> str:
    """Return the URL of the next page, relative to the URL of the requested page."""
    asked = {name: value for name, value in request.query_params.items() if not name.startswith("_")}
    return f"?{urlencode({**asked, **more})}"


@dataclass(frozen=True)
class Page:
    """The requested part of each list in an answer."""

    limit: Annotated[
        int | None,
        Query(ge=1, le=DEEPEST, description="Maximum length of each list. By default, lists are complete."),
    ] = None
    offset: Annotated[
        int, Query(ge=0, le=DEEPEST, description="Number of items to skip at the start of each list.")
    ] = 0

    def of(self, found: Sequence[Found]) -> list[Found]:
        """Return the requested part of a list."""
        return list(found[self.offset : None if self.limit is None else self.offset + self.limit])

    def members(self, request: Request, *lists: Sequence[object]) -> dict[str, Any]:
        """Return the members of an answer that describe the requested part; `next` is None on the last page."""
        end = None if self.limit is None else self.offset + self.limit
        following = None if end is None or end >= max(map(len, lists)) else _next(request, offset=end)
        return {"offset": self.offset, "limit": self.limit, "next": following}


ThePage = Annotated[Page, Depends()]


# --- parameters of requests ------------------------------------------------------------------------------------------


def time_asked(name: str, text: str | None) -> datetime | None:
    """Parse a time in a request, or raise a Problem."""
    if text is None:
        return None
    try:
        return as_of_time.parse_time(UNESCAPED_PLUS.sub(r"\1+\2", text), name)
    except InputError:
        example = "2026-06-15 or 2026-06-15T06:00:00Z"
        message = f"is {shown(text)}, which is not an ISO 8601 time, such as {example}."
        raise bad_parameter(name, message) from None


@dataclass(frozen=True)
class Asked:
    """A request for scores. A window of None means the shortest window, an as-of of None the newest."""

    request: Request
    answers: Answers
    publication: Publication
    window_days: int | None
    as_of: datetime | None

    async def answer(self, build: Callable[[Lens], models.Answer], rows: str = "", *, as_csv: bool = False) -> Response:
        """Return the answer that `build` creates, from the cache if possible.

        :param build: function that creates the answer. The publication that it reads may be newer than `publication`.
        :param rows: name of the list that is the answer if `Accept` prefers CSV.
        :param as_csv: answer with CSV, whatever `Accept` prefers.
        """
        if rows and preferred(self.request.headers.get("accept"), (JSON, CSV)) == CSV:
            as_csv = True

        def of_one_publication(marts: Marts) -> models.Answer | bytes:
            cache = self.answers.cache()
            answer = build(Lens(marts, read_publication(marts), cache, self.window_days, self.as_of))
            return csv_of(answer, rows).encode() if as_csv else answer

        media_type = f"{CSV}; charset=utf-8" if as_csv else JSON
        return await self.answers.answer(self.request, self.publication, of_one_publication, media_type)

    async def listing(
        self, model: type[models.Answer], read: Callable[[Lens], Sequence[Any] | None], page: Page
    ) -> Response:
        """Return an answer with one page of rows.

        :param read: function that reads all rows. It returns None if the role of the server may not read them.
        """
        members, total = models.LISTS[model]

        def build(lens: Lens) -> models.Answer:
            found = read(lens)
            if found is None:
                raise Problem("no-right", "The role of the server has no right to read this mart.")
            return model.model_validate(
                {
                    "as_of": lens.shown_as_of,
                    "window_days": lens.window_days,
                    total: len(found),
                    members: page.of(found),
                    **page.members(self.request, found),
                    "cache": lens.cache,
                }
            )

        return await self.answer(build, members)


async def _asked(
    request: Request, answers: TheAnswers, window_days: AskedWindow = None, as_of: AskedAsOf = None
) -> Asked:
    return Asked(request, answers, await answers.publication(), window_days, time_asked("as_of", as_of))


TheAsked = Annotated[Asked, Depends(_asked)]


def _score(lens: Lens, asked: str) -> tuple[Score, str | None]:
    """Return a score of the agent that a text identifies, and a note about agents that had its name before. The as-of
    is the requested one or, by default, the agent's newest."""
    agent, note = asking.agent(lens.marts, asked)
    window_days, _, at = asking.score_as_of(lens.marts, agent, lens.window_days, lens.as_of)
    [found] = read_scores(lens.marts, at, window_days, agent_id_hash=agent.agent_id_hash, raised_at=lens.shown_as_of)
    return found, note


# --- scores -----------------------------------------------------------------------------------------------------------


@api.get(
    "/scoring/capacity/fleet",
    summary="The fleet",
    **described("fleet", models.Fleet, problems(404), csv=True),
)
async def fleet(
    asked: TheAsked,
    page: ThePage,
    category: Annotated[models.Category | None, Query(description="Return only agents of this category.")] = None,
    status: Annotated[models.Status | None, Query(description="Return only agents with this status.")] = None,
    verdict: Annotated[VerdictName | None, Query(description="Return only agents with this verdict.")] = None,
    raised: Annotated[RaisedName | None, Query(description="Return only agents with this alert or red flag.")] = None,
    threshold: AskedThreshold = None,
    permission: AskedPermission = None,
    sort: Annotated[
        Sort,
        Query(
            description="Field by which `agents` is sorted. A minus before it means descending. attention: in the "
            "order of the fleet's page, which begins with the agents that need attention most. verdict: the most "
            "urgent first."
        ),
    ] = "-composite_score",
    fields: Annotated[
        str | None,
        Query(
            description="Members of each item of `agents`, separated by commas. By default, all.",
            examples=["agent_name,verdict,capacity_score_steady,change"],
        ),
        WithJsonSchema({"type": "string", "pattern": f"^({ONE_FIELD})(,({ONE_FIELD}))*$"}),
    ] = None,
    form: Annotated[
        Literal["json", "csv"] | None,
        Query(alias="format", description="Format of the answer. By default the header `Accept` decides."),
    ] = None,
) -> Response:
    """Scores and verdicts of all agents at an as-of, and numbers of the whole fleet.

    `agents` lists the agents with a score, and silent agents with the status no_traces. `unscored` lists the other
    agents without a score, with the number of traces that each agent lacks. `limit` and `offset` apply to both lists.
    The CSV has the rows of `agents`.
    """
    known = list(models.FleetScore.model_fields)
    wanted = known if fields is None else fields.split(",")
    if unknown := [name for name in wanted if name not in known]:
        message = f"names unknown members: {', '.join(map(shown, unknown[:MOST_UNKNOWN]))}; see `allowed`."
        raise bad_parameter("fields", message, allowed=known)

    def fits(score: Score, threshold: float | None) -> bool:
        return (
            (score.capacity_score is not None or score.is_silent)
            and category in (None, score.category)
            and status in (None, score.score_status)
            and (verdict is None or verdict_on(score, threshold).verdict == verdict)
            and (raised is None or any(one.name == raised for one in score.raised))
        )

    def build(lens: Lens) -> models.Fleet:
        lens = lens.deciding(threshold, permission)
        at = lens.fleet_as_of
        scores = read_scores(lens.marts, at, lens.window_days) if at else []
        fitting = [score for score in scores if fits(score, lens.threshold)]
        chosen = sorted(fitting, key=lambda score: score.agent_id_hash)
        by = sort.removeprefix("-")
        judging: dict[str, Callable[[Score], Any]] = {
            "attention": lambda score: attention(score, lens.threshold),
            "verdict": lambda score: VERDICTS.index(verdict_on(score, lens.threshold).verdict),
        }
        chosen.sort(key={**SORTED_BY, **judging}[by], reverse=sort.startswith("-"))
        unscored = []
        if category is None:
            verdicts = {score.agent_id_hash: verdict_on(score, lens.threshold).verdict for score in scores}
            without = lens.unscored(at, raised, lambda agent: verdict in (None, verdicts.get(agent, "wait")))
            unscored = [agent for agent in without if status in (None, agent.score_status)]
        agents = [models.FleetScore.model_validate(members) for members in lens.members(page.of(chosen))]
        for agent in agents:
            agent.model_fields_set.intersection_update(wanted)
        return models.Fleet(
            timestamp=datetime.now(UTC),
            as_of=at,
            window_days=lens.window_days,
            agent_count=len(agents),
            total_agent_count=len(chosen),
            **page.members(asked.request, chosen, unscored),
            agents=agents,
            total_unscored_count=len(unscored),
            unscored=page.of(unscored),
            summary=lens.summary(at, scores),
            cache=lens.cache,
        )

    return await asked.answer(build, "agents", as_csv=form == "csv")


@api.get(
    "/scoring/capacity/{agent_id:path}",
    summary="The score of an agent",
    **described("capacity", models.Score, problems(404, 409)),
)
async def capacity(
    agent_id: AgentId, asked: TheAsked, threshold: AskedThreshold = None, permission: AskedPermission = None
) -> Response:
    """Score and verdict of an agent at an as-of. An agent that is called `fleet` is found only by its hash."""

    def build(lens: Lens) -> models.Score:
        lens = lens.deciding(threshold, permission)
        score, note = _score(lens, agent_id)
        [members] = lens.members([score])
        return models.Score.model_validate({**members, "agent_note": note, "cache": lens.cache})

    return await asked.answer(build)


@api.get(
    "/scoring/factors/{agent_id:path}",
    summary="The factors of a score",
    **described("factors", models.FactorsAnswer, problems(404, 409)),
)
async def factors(
    agent_id: AgentId, asked: TheAsked, threshold: AskedThreshold = None, permission: AskedPermission = None
) -> Response:
    """The five factors of an agent's score: formulas, components, and the largest losses."""

    def build(lens: Lens) -> models.FactorsAnswer:
        lens = lens.deciding(threshold, permission)
        score, note = _score(lens, agent_id)
        [members] = lens.members([score])
        loss_components = [
            replace(one, loss_component=lens_name(one.loss_component))
            for one in attribution(lens.marts, [score.agent_id_hash], score.as_of, score.window_days)
        ]
        said = {"words": score.cause, "loss_components": loss_components}
        found = {**explained(members), "agent_note": note, "weighs_most": said, "cache": lens.cache}
        return models.FactorsAnswer.model_validate(found)

    return await asked.answer(build)


# --- history ----------------------------------------------------------------------------------------------------------


def _span(
    publication: Publication, days: int | None, begin: datetime | None, end: datetime | None
) -> tuple[datetime, datetime, datetime]:
    """Return three as-ofs: the first and the last of the page of a history, and the last of the whole history."""
    newest = publication.as_of
    if newest is None:
        raise Problem("no-score", "No score is published yet.")
    if begin is not None and end is not None and begin > end:
        message = f"is {as_of_time.text(begin)}, which is after `to`, {as_of_time.text(end)}."
        raise bad_parameter("from", message)
    end = end or newest
    if begin is not None and begin > newest:
        detail = f"No score is published at or after {as_of_time.text(begin)}. "
        detail += f"The newest as-of is {as_of_time.text(newest)}."
        raise Problem("no-score", detail, as_ofs=[newest])
    if begin is None:
        span = min(timedelta(days=days or DEFAULT_DAYS), end - EARLIEST)
        return end - span, end, end
    return begin, begin + min(timedelta(days=days or MOST_DAYS), end - begin), end


@api.get(
    "/scoring/history/{agent_id:path}",
    summary="Scores over time",
    **described("history", models.History, problems(404, 409), csv=True),
)
async def history(
    request: Request,
    answers: TheAnswers,
    agent_id: AgentId,
    window_days: AskedWindow = None,
    days: Annotated[
        int | None,
        Query(
            ge=1,
            le=MOST_DAYS,
            description=f"Maximum number of days in the answer. Without `from`, the days end at `to`, and the default "
            f"is {DEFAULT_DAYS}. With `from`, they begin there, the default is {MOST_DAYS}, and `next` has the rest.",
            examples=[30],
        ),
    ] = None,
    first: Annotated[
        str | None,
        Query(alias="from", description="First as-of in ISO 8601, included.", examples=["2026-06-01"]),
        WithJsonSchema(A_TIME),
    ] = None,
    last: Annotated[
        str | None,
        Query(alias="to", description="Last as-of, included. By default the newest.", examples=["2026-06-15"]),
        WithJsonSchema(A_TIME),
    ] = None,
    interval: Annotated[
        Literal["daily", "hourly"],
        Query(description="daily: as-ofs at midnight UTC; hourly: all published as-ofs."),
    ] = "daily",
) -> Response:
    """Scores of an agent over time, each with its five factors. The answer is CSV if `Accept` prefers text/csv."""
    asked = await _asked(request, answers, window_days)
    asked_span = time_asked("from", first), time_asked("to", last)

    def build(lens: Lens) -> models.History:
        begin, end, whole = _span(lens.publication, days, *asked_span)
        score, note = _score(lens, agent_id)
        key = (lens.marts, [score.agent_id_hash], score.window_days)
        daily_at = MIDNIGHT if interval == "daily" else None
        points = read_histories(*key, first=begin, last=end, daily_at=daily_at)
        return models.History.model_validate(
            {
                "agent_id_hash": score.agent_id_hash,
                "agent_name": name_of(score),
                "agent_note": note,
                "window_days": score.window_days,
                "period_days": -((begin - end) // timedelta(days=1)),
                "from_": begin,
                "to": end,
                "interval": interval,
                "current_as_of": score.as_of,
                "current_score": score.capacity_score,
                "current_category": score.category,
                "history": [point(row) for row in points[score.agent_id_hash]],
                "next": None
                if end >= whole
                else _next(request, **{"from": as_of_time.text(end + timedelta(seconds=1))}),
                "note": "Published scores, without interpolation. An as-of without a trace in the window has no score.",
                "cache": lens.cache,
            }
        )

    return await asked.answer(build, "history")


# --- alerts and parameters --------------------------------------------------------------------------------------------


@api.get("/scoring/alerts", summary="Alerts", **described("alerts", models.Alerts, problems(404)))
async def alerts(
    asked: TheAsked,
    page: ThePage,
    threshold: Annotated[
        float | None,
        Query(ge=0, le=1, description="Return agents with a lower score. By default low_capacity_threshold."),
    ] = None,
    kind: Annotated[AlertKind | None, Query(description="Return only alerts of this kind.")] = None,
    severity: Annotated[
        Literal["critical", "warning"] | None, Query(description="Return only alerts of this severity.")
    ] = None,
    verdict_threshold: AskedThreshold = None,
    permission: AskedPermission = None,
) -> Response:
    """Agents below a threshold, the lowest score first, and alerts of the window at the as-of, critical ones first.

    `kind` and `severity` filter the alerts. `limit` and `offset` apply to both lists.
    """

    def build(lens: Lens) -> models.Alerts:
        most = lens.publication.low_capacity_threshold if threshold is None else threshold
        lens = lens.deciding(verdict_threshold, permission)
        at = lens.fleet_as_of
        below = lens.below(most, at)
        found = [
            alert
            for alert in (read_alerts(lens.marts, at, lens.window_days) if at else [])
            if kind in (None, alert.kind) and severity in (None, alert.severity)
        ]
        agents = page.of(below)
        return models.Alerts(
            timestamp=datetime.now(UTC),
            as_of=at,
            threshold=most,
            window_days=lens.window_days,
            alert_count=len(agents),
            total_agent_count=len(below),
            agents=agents,
            total_alert_count=len(found),
            **page.members(asked.request, below, found),
            alerts=[
                models.Alert.model_validate({**asdict(alert), "agent_name": name_of(alert)}) for alert in page.of(found)
            ],
            cache=lens.cache,
        )

    return await asked.answer(build)


def _listed(path: str, name: str, model: type[models.Answer], *statuses: int) -> Callable[[Handler], Handler]:
    """Return the decorator of an endpoint that lists rows, also as CSV."""
    summary = name.replace("_", " ").capitalize()
    return api.get(f"/scoring/{path}", summary=summary, **described(name, model, problems(*statuses), csv=True))


@_listed("red-flags", "red_flags", models.RedFlags, 404)
async def red_flags(
    asked: TheAsked,
    page: ThePage,
    red_flag: Annotated[RedFlagName | None, Query(description="Return only this red flag.")] = None,
) -> Response:
    """Red flags of selective reporting at an as-of. They are reasons to look and do not change a score."""

    def read(lens: Lens) -> list[Any]:
        at = lens.fleet_as_of
        return [
            {**asdict(one), "agent_name": name_of(one)}
            for one in (read_red_flags(lens.marts, at, lens.window_days) if at else [])
            if red_flag in (None, one.red_flag)
        ]

    return await asked.listing(models.RedFlags, read, page)


@_listed("agents", "agents", models.Agents)
async def agents(asked: TheAsked, page: ThePage) -> Response:
    """All agents that have sent traces, with their names and the times of their traces."""
    return await asked.listing(models.Agents, lambda lens: all_agents(lens.marts), page)


@_listed("runs", "runs", models.Runs)
async def runs(asked: TheAsked, page: ThePage) -> Response:
    """The log of runs, the newest first."""
    return await asked.listing(models.Runs, lambda lens: run_records(lens.marts, DEEPEST), page)


@_listed("data-quality", "data_quality", models.DataQuality)
async def data_quality(asked: TheAsked, page: ThePage) -> Response:
    """Input rows that were repaired, set aside or refused: counts over all days, and for each of the last 14 days."""

    def read(lens: Lens) -> list[Issue] | None:
        at = lens.shown_as_of or datetime.now(UTC)
        return issues(lens.marts, (at - timedelta(microseconds=1)).date(), QUALITY_DAYS)

    return await asked.listing(models.DataQuality, read, page)


@_listed("permissions", "permissions", models.Permissions)
async def permissions(asked: TheAsked, page: ThePage) -> Response:
    """The permissions in permissions.csv or, without this file, the permission that the published verdicts are
    about."""

    def read(lens: Lens) -> list[Permission]:
        found = read_permissions(lens.marts)
        return found or [published_permission(lens.marts, lens.publication.window_days[0])]

    return await asked.listing(models.Permissions, read, page)


@_listed("verdicts/{agent_id:path}", "verdict_history", models.VerdictHistory, 404, 409)
async def verdict_history(agent_id: AgentId, asked: TheAsked, page: ThePage) -> Response:
    """Verdicts of an agent with the time ranges in which each was published, the newest first."""

    def read(lens: Lens) -> list[VerdictPeriod]:
        agent, _ = asking.agent(lens.marts, agent_id)
        return verdict_periods(lens.marts, agent.agent_id_hash, lens.window_days)

    return await asked.listing(models.VerdictHistory, read, page)


@_listed("deferrals/{agent_id:path}", "deferrals", models.Deferrals, 404, 409)
async def deferrals(agent_id: AgentId, asked: TheAsked, page: ThePage) -> Response:
    """Deferrals from which the component q_deferral of a score is computed, the lowest value first."""

    def read(lens: Lens) -> list[Deferral]:
        score, _ = _score(lens, agent_id)
        return judged_deferrals(lens.marts, score.agent_id_hash, score.as_of, score.window_start)

    return await asked.listing(models.Deferrals, read, page)


@api.get("/scoring/parameters", summary="Parameters", **described("parameters", models.Parameters, problems()))
async def parameters(request: Request, answers: TheAnswers) -> Response:
    """Parameters, categories and windows that scores are computed with."""

    def build(marts: Marts) -> models.Parameters:
        publication = read_publication(marts)
        published = read_parameters(marts)
        values = {parameter.parameter_name: parameter.parameter_value for parameter in published}
        categories = read_categories(marts)
        windows = read_windows(marts)
        cache = answers.cache()
        return models.Parameters.model_validate(
            {
                "parameters": {
                    **{theirs: values[ours] for theirs, ours in LENS_PARAMETERS.items()},
                    "min_traces": publication.min_traces,
                    "default_window_days": windows[0].window_days,
                    "baseline_window_days": windows[0].baseline_days,
                    "coherence_window_days": windows[0].coherence_days,
                },
                "parameter_set_id": publication.parameter_set_id,
                "published": published,
                "non_exempt_actions": NON_EXEMPT_ACTIONS,
                "exempt_actions": EXEMPT_ACTIONS,
                "categories": {category.category: category.guidance for category in categories},
                "category_bounds": categories,
                "windows": windows,
                "rate_limit": {
                    "requests_per_minute": answers.settings.requests_per_minute,
                    "cache_ttl_seconds": cache.ttl_seconds,
                },
                "cache": cache,
            }
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
        Component,
        Query(
            description="Name of the component in the marts. No single trace lowers delta_drift or ece. For "
            "q_deferral, the endpoint `deferrals` lists the deferrals.",
            examples=["i_chain"],
        ),
    ],
    after: After = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Maximum number of traces in the answer.")] = 100,
) -> Response:
    """Traces that lowered a component of a score, the newest first."""

    def build(lens: Lens) -> models.Evidence:
        score, note = _score(lens, agent_id)
        key = (score.agent_id_hash, score.as_of, score.window_start)
        traces = read_evidence(lens.marts, component, *key, after=after, limit=limit + 1)
        page = traces[:limit]
        return models.Evidence(
            agent_id_hash=score.agent_id_hash,
            agent_name=name_of(score),
            agent_note=note,
            as_of=score.as_of,
            window_days=score.window_days,
            window_start=score.window_start,
            component=component,
            lowered_by_unit=RULES[component].unit,
            traces=[models.EvidenceTrace.model_validate(trace) for trace in page],
            next=_next(asked.request, after=page[-1].key) if len(traces) > limit else None,
            cache=lens.cache,
        )

    return await asked.answer(build, "traces")


# --- the server itself ------------------------------------------------------------------------------------------------


@router.get("/healthz", summary="Is the process up?", tags=["server"], **described("healthz", models.Health, {}))
async def healthz() -> Response:
    """Whether the process runs. The endpoint does not need a key."""
    return _unkept(models.Health(status="ok"))


@router.get(
    "/readyz",
    summary="Can scores be served?",
    tags=["server"],
    **described("readyz", models.Ready, problems()),
)
async def readyz(answers: TheAnswers) -> Response:
    """Whether the database can be reached and the marts exist, with the age of the newest as-of. No key is needed."""

    def read(marts: Marts) -> Publication:
        if missing := marts.missing() or marts.lacking():
            raise Problem("not-published", f"There is no {', '.join(missing)}: score the fleet first.")
        return read_publication(marts)

    publication = await run_in_threadpool(answers.read, read)
    as_of = publication.as_of
    return _unkept(
        models.Ready(
            status="ready",
            as_of=as_of,
            as_of_age_seconds=None if as_of is None else (datetime.now(UTC) - as_of).total_seconds(),
            scored_at=publication.scored_at,
            parameter_set_id=publication.parameter_set_id,
        )
    )


def _unkept(answer: Described) -> Response:
    return Response(answer.body(), media_type=JSON, headers={"Cache-Control": "no-store"})


@api.get("", summary="The endpoints", **described("index", models.Index, problems()))
@api.get("/scoring", summary="The endpoints", **described("scoring_index", models.Index, problems()))
async def index(request: Request) -> Response:
    """The endpoints of the API, each with its content and media types."""
    endpoints = [
        models.Endpoint(
            path=route.path.replace(":path}", "}"),
            summary=route.summary or "",
            description=route.description,
            media_types=_offered(route),
        )
        for route in api.routes
        if isinstance(route, APIRoute) and route.path.startswith(request.scope["route"].path)
    ]
    return _unkept(models.Index(documentation="/openapi.json", endpoints=endpoints))


router.include_router(api, dependencies=[Depends(acceptable)])
