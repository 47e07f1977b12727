"""Where the links of a page lead: to addresses of the server, or to places in the one file of a report."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from urllib.parse import urlencode

from ciris_scoring.basics import as_of as as_of_time
from ciris_scoring.reading.agents import whole_hash

PLAIN = re.compile(r"[0-9A-Za-z]{4,64}")


@dataclass(frozen=True)
class ServedLinks:
    """Links between the pages of a server: relative, all pages being in one folder."""

    evidence_components: frozenset[str] = frozenset()
    """Components that the server shows the traces of."""
    as_of: datetime | None = None
    """As-of of the pages of the fleet and of agents; None for the newest."""

    days: int | None = None
    """Of history that the pages of the fleet and of agents show; None for what they show by themselves."""

    threshold: float | None = None
    """Steady score that the permission asks for; None for that of the published verdicts."""

    @property
    def newest(self) -> "ServedLinks":
        """The same to the newest scores."""
        return replace(self, as_of=None)

    def at(self, as_of: datetime) -> "ServedLinks":
        """The same to the scores of an as-of."""
        return replace(self, as_of=as_of)

    def over(self, days: int) -> "ServedLinks":
        """The same with so many days of history."""
        return replace(self, days=days)

    def fleet(self, window_days: int) -> str:
        """The page of the fleet, ``./``."""
        return f"./?{self._query(window_days=window_days)}"

    def agent(self, agent_id_hash: str, window_days: int) -> str:
        """The page of an agent, ``agent?agent_id=``: a hash may hold what a path cannot."""
        return f"agent?{self._query(agent_id=whole_hash(agent_id_hash), window_days=window_days)}"

    def _query(self, **values: str | int) -> str:
        as_of = {} if self.as_of is None else {"as_of": as_of_time.text(self.as_of)}
        more = {"days": self.days, "threshold": self.threshold}
        return urlencode(
            {**values, **as_of, **{name: value for name, value in more.items() if value is not None}}
        )

    def alerts(self, window_days: int, **more: str | int) -> str:
        """The page of the alerts, ``alerts``.

        :param more: of the query.
        """
        return f"alerts?{self._query(window_days=window_days, **more)}"

    def parameters(self, window_days: int) -> str:
        """The page of the parameters, ``parameters``."""
        return f"parameters?{urlencode({'window_days': window_days})}"

    def evidence(
        self,
        agent_id_hash: str,
        component: str,
        as_of: datetime,
        window_days: int,
        *,
        page: str = "evidence",
        **more: str,
    ) -> str | None:
        """The page of the traces behind a component, ``evidence?agent_id=``.

        :param page: another one with the same query.
        :param more: of the query.
        """
        if component not in self.evidence_components:
            return None
        query = {
            "agent_id": whole_hash(agent_id_hash),
            "component": component,
            "window_days": window_days,
            **more,
        }
        return f"{page}?{urlencode({**query, 'as_of': as_of_time.text(as_of)})}"

    def signs(self, window_days: int, agent_id_hash: str | None = None) -> str:
        """The page of the signs of a polished record, ``signs``, of all agents or of one."""
        agent = {} if agent_id_hash is None else {"agent_id": whole_hash(agent_id_hash)}
        return f"signs?{self._query(**agent, window_days=window_days)}"

    def compare(self, window_days: int, agent_id_hash: str, other: str | None = None) -> str:
        """The page of two agents, ``compare``; without the other one, that to choose it on."""
        beside = {} if other is None else {"other_id": whole_hash(other)}
        return f"compare?{self._query(agent_id=whole_hash(agent_id_hash), **beside, window_days=window_days)}"

    def glossary(self, place: str) -> str:
        """A term on the page ``glossary``."""
        return f"glossary#g-{place}"

    def served(self, window_days: int) -> Mapping[str, str]:
        """The pages that only a server has, by their names."""
        return {
            "Signs": self.signs(window_days),
            "Runs": "runs",
            "Data quality": "quality",
            "Glossary": "glossary",
            "API": "docs",
        }


@dataclass(frozen=True)
class ReportLinks:
    """Links within one file."""

    places: dict[str, str] = field(default_factory=dict)
    """Place of each agent that has one, by hash."""

    @classmethod
    def to(cls, agents: list[str]) -> "ReportLinks":
        """Give each agent a place: its hash where that can stand in an address, else a number."""
        return cls(
            {agent: agent if PLAIN.fullmatch(agent) else f"agent-{i}" for i, agent in enumerate(agents)}
        )

    def fleet(self, window_days: int) -> str:
        """The beginning of the fleet."""
        return "#fleet"

    def agent(self, agent_id_hash: str, window_days: int) -> str:
        """The section of an agent; the fleet for one that was left out."""
        return f"#{self.places.get(agent_id_hash, 'fleet')}"

    def alerts(self, window_days: int) -> str:
        """The beginning of what stands out."""
        return "#raised"

    def parameters(self, window_days: int) -> str:
        """The beginning of the parameters."""
        return "#parameters"

    def evidence(self, agent_id_hash: str, component: str, as_of: datetime, window_days: int) -> str | None:
        """Nothing: the traces are in the database."""
        return None

    def glossary(self, place: str) -> str:
        """A term in the glossary at the end."""
        return f"#g-{place}"

    def served(self, window_days: int) -> Mapping[str, str]:
        """Nothing: they are read from the database."""
        return {}


Links = ServedLinks | ReportLinks
