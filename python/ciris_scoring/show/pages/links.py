"""Targets of the links in a page: URLs of the server, or anchors within the HTML report."""

import re
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from urllib.parse import quote, urlencode

from ciris_scoring.database import as_of as as_of_time
from ciris_scoring.marts.evidence import DEFERRALS, RULES
from ciris_scoring.names import whole_hash

API = "api/v1/scoring"
PLAIN = re.compile(r"[0-9A-Za-z]{4,64}")


@dataclass(frozen=True)
class ServedLinks:
    """Links between the pages of a server. They are relative to the folder in which all pages are, because a proxy may
    serve it under any path."""

    as_of: datetime | None = None
    """As-of of the linked pages; None for the newest."""
    days: int | None = None
    """Days of history on the linked pages; None for the default."""
    threshold: float | None = None
    """See `verdict`."""

    def fleet(self, window_days: int) -> str:
        """Return the link to the fleet."""
        return f"./?{self._query(window_days=window_days)}"

    def agent(self, agent_id_hash: str, window_days: int) -> str:
        """Return the link to an agent. The hash is in the query, because a path cannot contain all characters."""
        return f"agent?{self._query(agent_id=whole_hash(agent_id_hash), window_days=window_days)}"

    def _query(self, **values: str | int | date) -> str:
        as_of = {} if self.as_of is None else {"as_of": as_of_time.text(self.as_of)}
        more = {"days": self.days, "threshold": self.threshold}
        return urlencode({**values, **as_of, **{name: value for name, value in more.items() if value is not None}})

    def alerts(self, window_days: int) -> str:
        """Return the link to the alerts."""
        return f"alerts?{self._query(window_days=window_days)}"

    def evidence(self, agent_id_hash: str, component: str, as_of: datetime, window_days: int) -> str | None:
        """Return the link to the page of the traces that lowered a component, or None if there is no such page."""
        if component not in (*RULES, DEFERRALS):
            return None
        asked = {"agent_id": whole_hash(agent_id_hash), "component": component, "window_days": window_days}
        return f"evidence?{urlencode({**asked, 'as_of': as_of_time.text(as_of)})}"

    def traces(self, agent: str, component: str, as_of: datetime, window_days: int) -> str:
        """Return the link to the CSV of the traces that lowered a component, which the API makes."""
        asked = {"component": component, "window_days": window_days, "as_of": as_of_time.text(as_of), "format": "csv"}
        return f"{API}/evidence/{quote(agent, safe='')}?{urlencode(asked)}"

    def history(self, agent_id_hash: str, window_days: int, days: int, as_of: datetime) -> str:
        """Return the link to the history of an agent as CSV, which the API makes."""
        asked = {"window_days": window_days, "days": min(days, 400), "as_of": as_of_time.text(as_of), "format": "csv"}
        return f"{API}/history/{quote(whole_hash(agent_id_hash), safe='')}?{urlencode(asked)}"

    def factors(self, window_days: int) -> str:
        """Return the link to the CSV of the fleet's factors over time."""
        return f"factors.csv?{replace(self, threshold=None)._query(window_days=window_days)}"

    def glossary(self, place: str) -> str:
        """Return the link to a term of the glossary."""
        return f"glossary#g-{place}"

    def csv(self, window_days: int) -> str:
        """Return the link to the fleet as CSV, which the API makes."""
        asked = replace(self, days=None)._query(format="csv", sort="attention", window_days=window_days)
        return f"{API}/capacity/fleet?{asked}"


@dataclass(frozen=True)
class ReportLinks:
    """Links within the HTML report."""

    places: dict[str, str] = field(default_factory=dict)
    """Anchors of the agents in the report, by hash."""

    @classmethod
    def to(cls, agents: list[str]) -> "ReportLinks":
        """Create the links with an anchor for each agent: its hash if that is letters and digits, else a number."""
        places = {agent: agent if PLAIN.fullmatch(agent) else f"agent-{i}" for i, agent in enumerate(agents)}
        return cls(places)

    def fleet(self, window_days: int) -> str:
        """Return the link to the fleet."""
        return "#fleet"

    def agent(self, agent_id_hash: str, window_days: int) -> str:
        """Return the link to an agent's section, or to the fleet if the report has no such section."""
        return f"#{self.places.get(agent_id_hash, 'fleet')}"

    def evidence(self, agent_id_hash: str, component: str, as_of: datetime, window_days: int) -> str | None:
        """Return None, because the report does not contain traces."""
        return None

    def glossary(self, place: str) -> str:
        """Return the link to a term of the glossary."""
        return f"#g-{place}"


Links = ServedLinks | ReportLinks
