"""What was repaired, set aside or refused of the traces, and counted."""

from dataclasses import dataclass
from datetime import datetime

from ciris_scoring.reading.marts import Marts


@dataclass(frozen=True, slots=True)
class Issue:
    """What fct_data_quality counts of an issue, in all periods."""

    issue: str
    n: int
    n_agents: int
    newest: datetime | None
    """Start of the newest period with it; None where its rows have no time."""


@dataclass(frozen=True, slots=True)
class IssueOfPeriod:
    """What fct_data_quality counts of an issue in a period."""

    period_start: datetime
    issue: str
    n: int
    n_agents: int


def issues(marts: Marts) -> list[Issue] | None:
    """Read the issues, the most frequent first; None where the role may not read them."""
    if not marts.may_read("fct_data_quality"):
        return None
    return marts.rows(
        Issue,
        """
        select issue, sum(n)::bigint as n, count(distinct agent_id_hash) as n_agents, max(period_start) as newest
        from {fct_data_quality}
        group by issue
        order by n desc, issue
        """,
    )


def issues_by_period(marts: Marts, limit: int) -> list[IssueOfPeriod]:
    """Read the issues by period, the newest first.

    :param limit: most rows.
    """
    return marts.rows(
        IssueOfPeriod,
        """
        select period_start, issue, sum(n)::bigint as n, count(distinct agent_id_hash) as n_agents
        from {fct_data_quality}
        where period_start is not null
        group by period_start, issue
        order by period_start desc, n desc, issue
        limit %(limit)s
        """,
        limit=limit,
    )
