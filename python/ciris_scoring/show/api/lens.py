"""Convert rows of the marts to the formats of the CIRIS lens API."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from ciris_scoring.kinds.components import COMPONENT_ROWS
from ciris_scoring.marts import agent as agent_reading
from ciris_scoring.marts import agents, asking, fleet
from ciris_scoring.marts.history import Point
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.publication import Publication
from ciris_scoring.marts.score import NO_TRACES, Score
from ciris_scoring.marts.verdict import VERDICTS, verdict
from ciris_scoring.marts.verdict import raised as raised_of
from ciris_scoring.marts.words import FACTOR_WORDS
from ciris_scoring.names import FACTORS, NON_EXEMPT_ACTIONS
from ciris_scoring.show.api import models
from ciris_scoring.show.api.columns import Described
from ciris_scoring.show.spreadsheet import csv_text

LENS_NAMES = {one.component: one.lens_name for one in COMPONENT_ROWS if one.lens_name}
"""Names of components in the lens API by their names in the marts, for components whose two names differ."""


def _number(column: str) -> Callable[[Score], float]:
    """Return a sort key by a column. A missing value is sorted like one below all others."""
    return lambda score: -1.0 if getattr(score, column) is None else getattr(score, column)


SORTED_BY: Mapping[str, Callable[[Score], Any]] = {
    "composite_score": _number("capacity_score"),
    "change": lambda score: score.change or 0,
    "capacity_score_steady": lambda score: score.capacity_score_steady or 0,
    "agent_name": lambda score: name_of(score),
    "total_traces": lambda score: score.n_traces,
    **{factor: _number(column) for factor, column in FACTORS.items()},
}
"""Sort keys for the fleet that do not depend on the threshold."""


def lens_name(component: str) -> str:
    """Return the name of a component in the lens API."""
    return LENS_NAMES.get(component, component)


def name_of(row: Any) -> str:
    """Return the name of an agent, or its hash if it never sent a name. Clients of the lens expect a text."""
    name: str = row.agent_name or row.agent_id_hash
    return name


def _values(row: Score | Point, model: type[Described]) -> dict[str, Any]:
    """Return the values of a row for the fields of a model."""
    return {name: getattr(row, name) for name in model.model_fields if hasattr(row, name)}


def _members(row: Score | Point, model: type[Described]) -> dict[str, Any]:
    """Return the values of a row for the fields of a model. The lens calls the score itself `composite_score`."""
    return {**_values(row, model), "agent_name": name_of(row), "composite_score": row.capacity_score}


@dataclass(frozen=True)
class Lens:
    """The marts of one publication, and the parameters that choose scores. The methods convert scores to the formats
    of the lens API."""

    marts: Marts
    publication: Publication
    cache: models.Cache
    asked_window: int | None
    as_of: datetime | None
    """Requested as-of; None for the newest."""
    threshold: float | None = None
    """See `verdict`."""

    @property
    def window_days(self) -> int:
        """The requested window, by default the shortest one."""
        return asking.window(self.publication.window_days, self.asked_window)

    @property
    def shown_as_of(self) -> datetime | None:
        """The requested as-of, by default the newest; None if no score is published."""
        return self.as_of or self.publication.as_of

    @property
    def fleet_as_of(self) -> datetime | None:
        """The requested as-of of the fleet, by default the newest; None if no score is published."""
        return asking.fleet_as_of(self.marts, self.window_days, self.as_of)

    def deciding(self, threshold: float | None, permission: str | None) -> "Lens":
        """Return a copy with threshold and window of the permission that has a name. If the name is None, use the
        permission that has the requested threshold and window."""
        window_days = self.window_days if permission is None else self.asked_window
        chosen = asking.permission(self.marts, permission, threshold, window_days)
        return replace(self, asked_window=chosen.window_days, threshold=chosen.threshold)

    def members(self, scores: Sequence[Score]) -> Iterator[dict[str, Any]]:
        """Yield the members of each score with its verdict, factors and metadata. All scores must have the same as-of
        and window."""
        if not scores:
            return
        hashes = [score.agent_id_hash for score in scores]
        key = (self.marts, hashes, scores[0].as_of, scores[0].window_days)
        parts: dict[tuple[str, str], dict[str, float | None]] = defaultdict(dict)
        for part in agent_reading.components(*key):
            parts[part.agent_id_hash, part.factor][lens_name(part.component)] = part.component_value
        non_exempt = agent_reading.non_exempt_traces(*key)
        for score in scores:
            yield {
                **self.judged(score),
                "factors": {
                    name: {
                        "score": value,
                        "components": parts[score.agent_id_hash, name],
                        "trace_count": score.n_traces,
                        "confidence": score.confidence,
                    }
                    for name, value in score.factors.items()
                },
                "metadata": {
                    **_values(score, models.Metadata),
                    "window_end": score.as_of,
                    "total_traces": score.n_traces,
                    "non_exempt_traces": non_exempt.get(score.agent_id_hash, 0),
                },
            }

    def judged(self, score: Score) -> dict[str, Any]:
        """Return the members of a score with its verdict, without factors and metadata."""
        found = verdict(score, self.threshold)
        return {
            **_members(score, models.ScoreBase),
            "interval_driver": score.interval_driver and lens_name(score.interval_driver),
            "unmeasured_components": score.unmeasured_components and list(map(lens_name, score.unmeasured_components)),
            "missing_traces": score.missing_traces or 0,
            "verdict": found.verdict,
            "verdict_reason": found.reason,
            "verdict_threshold": found.threshold,
            "probability_at_threshold": found.probability,
        }

    def unscored(
        self, as_of: datetime | None, raised: str | None = None, fits: Callable[[str], bool] = lambda _: True
    ) -> list[models.Unscored]:
        """Return the agents without a score at an as-of. If the name of an alert or red flag is given, return only
        agents that have it.

        :param fits: whether to return the agent with a hash.
        """
        having = None
        if raised is not None and as_of is not None:
            found = raised_of(self.marts, self.window_days, as_of)
            having = {agent for agent, of_agent in found.items() if raised in (one.name for one in of_agent)}
        return [
            models.Unscored.model_validate(
                {
                    **asdict(agent),
                    "agent_name": name_of(agent),
                    "score_status": agent.score_status or NO_TRACES,
                    "missing_traces": max(0, self.publication.min_traces - agent.n_traces),
                }
            )
            for agent in agents.unscored(self.marts, as_of, self.window_days)
            if (having is None or agent.agent_id_hash in having) and fits(agent.agent_id_hash)
        ]

    def summary(self, as_of: datetime | None, scores: Sequence[Score]) -> models.Summary:
        """Return the summary of a fleet with the given scores, without filters."""
        found = None if as_of is None else fleet.capacity(self.marts, as_of, self.window_days)
        judged_as = Counter(verdict(score, self.threshold).verdict for score in scores)
        means = {name for name in models.Summary.model_fields if name.endswith("_capacity_score")}
        counted = models.Summary.model_fields.keys() - means - {"verdicts"}
        return models.Summary.model_validate(
            {name: getattr(found, f"n_{name}", 0) for name in counted}
            | {name: getattr(found, name, None) for name in means}
            | {"verdicts": {name: judged_as[name] for name in VERDICTS}}
        )

    def below(self, threshold: float, as_of: datetime | None) -> list[models.AlertedAgent]:
        """Return the agents with a score below a threshold at an as-of, the lowest score first; no agents if the as-of
        is None."""
        if as_of is None:
            return []
        found = fleet.scores(self.marts, as_of, self.window_days, below=threshold)
        hashes = [score.agent_id_hash for score in found]
        non_exempt = agent_reading.non_exempt_traces(self.marts, hashes, as_of, self.window_days)
        return [
            models.AlertedAgent.model_validate(
                {**self.judged(score), "non_exempt_traces": non_exempt.get(score.agent_id_hash, 0)}
            )
            for score in found
        ]


def explained(score: dict[str, Any]) -> dict[str, Any]:
    """Add the name, formula and description of each factor, and the list of non-exempt actions, to a score."""
    factors = {}
    for name, words in FACTOR_WORDS.items():
        said = {"name": words.name, "formula": words.formula, "description": words.description}
        notes = {"notes": list(words.notes)} if words.notes else {}
        factors[name] = {**score["factors"][name], **said, **notes}
    metadata = {**score["metadata"], "non_exempt_actions": NON_EXEMPT_ACTIONS}
    return {**score, "factors": factors, "metadata": metadata}


def point(row: Point) -> models.Point:
    """Convert a score to a point of a history."""
    return models.Point.model_validate(
        {
            **_members(row, models.Point),
            "factors": {factor: getattr(row, column) for factor, column in FACTORS.items()},
        }
    )


def csv_of(answer: models.Answer, rows: str) -> str:
    """Return a list of an answer as CSV. Factors and metadata become columns. Rows of a history get the agent and the
    window of the answer.

    :param rows: name of the list.
    """
    document = answer.model_dump(exclude_unset=True)
    shared = {name: document[name] for name in ("agent_id_hash", "window_days") if name in document}
    found = []
    for item in document[rows]:
        row = {name: value for name, value in item.items() if name not in ("factors", "metadata", "raised")}
        for factor, value in item.get("factors", {}).items():
            row[factor] = value["score"] if isinstance(value, dict) else value
        if "raised" in item:
            row["raised"] = [one["name"] for one in item["raised"]]
        for factor, points in (row.pop("steady_difference", None) or {}).items():
            row[f"steady_difference_{factor}"] = points
        found.append((shared if rows == "history" else {}) | row | item.get("metadata", {}))
    names = dict.fromkeys(name for row in found for name in row)
    first = [name for name in ("agent_id_hash", "agent_name", "as_of", "window_days") if name in names]
    return csv_text(list(dict.fromkeys([*first, *names])), found)
