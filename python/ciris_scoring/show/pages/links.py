"""Where the links of a page lead: to addresses of the server, or to places in the one file of a report."""

import re
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol
from urllib.parse import urlencode

from ciris_scoring.basics import as_of as as_of_time

PLAIN = re.compile(r"[0-9A-Za-z]{4,64}")


class Links(Protocol):
    """The links that the templates need."""

    def fleet(self, window_days: int) -> str:
        """The fleet."""

    def agent(self, agent_id_hash: str, window_days: int) -> str:
        """An agent."""

    def alerts(self, window_days: int) -> str:
        """The alerts."""

    def parameters(self, window_days: int) -> str:
        """The parameters."""

    def evidence(self, agent_id_hash: str, component: str, as_of: datetime, window_days: int) -> str | None:
        """The traces behind a component; None where they cannot be seen."""


@dataclass(frozen=True)
class ServedLinks:
    """Links between the pages of a server: relative, all pages being in one folder."""

    evidence_components: frozenset[str] = frozenset()
    """Components that the server shows the traces of."""
    evidence_path: str = "api/v1/scoring/evidence/"
    as_of: datetime | None = None
    """As-of of the pages of the fleet and of agents; None for the newest."""

    @property
    def newest(self) -> "ServedLinks":
        """The same to the newest scores."""
        return replace(self, as_of=None)

    def fleet(self, window_days: int) -> str:
        """The page of the fleet, ``./``."""
        return f"./?{self._query(window_days=window_days)}"

    def agent(self, agent_id_hash: str, window_days: int) -> str:
        """The page of an agent, ``agent?agent_id=``: a hash may hold what a path cannot."""
        return f"agent?{self._query(agent_id=agent_id_hash, window_days=window_days)}"

    def _query(self, **values: str | int) -> str:
        return urlencode(values if self.as_of is None else {**values, "as_of": as_of_time.text(self.as_of)})

    def alerts(self, window_days: int) -> str:
        """The page of the alerts, ``alerts``."""
        return f"alerts?{urlencode({'window_days': window_days})}"

    def parameters(self, window_days: int) -> str:
        """The page of the parameters, ``parameters``."""
        return f"parameters?{urlencode({'window_days': window_days})}"

    def evidence(self, agent_id_hash: str, component: str, as_of: datetime, window_days: int) -> str | None:
        """The API's answer on the traces behind a component."""
        if component not in self.evidence_components:
            return None
        agent = urlencode({"": agent_id_hash})[1:].replace("+", "%20")
        query = {"component": component, "as_of": as_of.isoformat(), "window_days": window_days}
        return f"{self.evidence_path}{agent}?{urlencode(query)}"


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
        """The beginning of the alerts."""
        return "#alerts"

    def parameters(self, window_days: int) -> str:
        """The beginning of the parameters."""
        return "#parameters"

    def evidence(self, agent_id_hash: str, component: str, as_of: datetime, window_days: int) -> str | None:
        """Nothing: the traces are in the database."""
        return None
