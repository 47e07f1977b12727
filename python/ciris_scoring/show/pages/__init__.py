"""The scores as pages of HTML, for a server and for a report in one file: the same templates, charts and readings.

Every function takes a connection that may read the marts, and the marts' schema. What a page cannot show, a message
says in its place.
"""

from ciris_scoring.show.pages.links import Links, ReportLinks, ServedLinks
from ciris_scoring.show.pages.pages import (
    Message,
    agent_page,
    alerts_page,
    compare_page,
    evidence_csv,
    evidence_page,
    fleet_page,
    glossary_page,
    message_page,
    parameters_page,
    quality_page,
    report_page,
    runs_page,
    signs_page,
)

__all__ = [
    "Links",
    "Message",
    "ReportLinks",
    "ServedLinks",
    "agent_page",
    "alerts_page",
    "compare_page",
    "evidence_csv",
    "evidence_page",
    "fleet_page",
    "glossary_page",
    "message_page",
    "parameters_page",
    "quality_page",
    "report_page",
    "runs_page",
    "signs_page",
]
