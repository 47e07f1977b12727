"""Parameters, windows and categories that scores are computed with, and texts about factors, components and terms."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from ciris_scoring.database.terminal import inside_sentence
from ciris_scoring.kinds.components import COMPONENT_ROWS, LOSS_WORDS
from ciris_scoring.marts.marts import Marts
from ciris_scoring.paths import own_project


@dataclass(frozen=True, slots=True)
class Parameter:
    """A row of dim_scoring_parameters. The value of the sampling salt is null, because it is not published."""

    parameter_name: str
    parameter_value: str | None
    default_value: str
    allowed_range: str
    meaning: str
    specification_section: str
    parameter_set_id: str


@dataclass(frozen=True, slots=True)
class Window:
    """A row of dim_scoring_windows."""

    window_days: int
    baseline_days: int
    coherence_days: int


@dataclass(frozen=True, slots=True)
class Category:
    """A row of dim_capacity_categories, with the same units and nulls."""

    category: str
    label: str
    guidance: str
    lower_bound: float | None
    upper_bound: float | None
    colour: str

    @property
    def words(self) -> str:
        """Label and guidance, for example "High Fragility (immediate intervention required)"."""
        return f"{self.label} ({inside_sentence(self.guidance)})"


def parameters(marts: Marts) -> list[Parameter]:
    """Read the parameters that are in force, ordered by the section of the specification."""
    return marts.rows(
        Parameter,
        """
        select
            parameter_name, parameter_value, default_value, allowed_range, meaning,
            specification_section::text as specification_section, parameter_set_id
        from {dim_scoring_parameters}
        order by specification_section collate "C", parameter_name collate "C"
        """,
    )


def windows(marts: Marts) -> list[Window]:
    """Read the windows, the shortest first."""
    return marts.rows(Window, "select {columns} from {dim_scoring_windows} order by window_days")


def categories(marts: Marts) -> list[Category]:
    """Read the categories, the lowest first."""
    query = "select {columns} from {dim_capacity_categories} order by lower_bound nulls first"
    return marts.rows(Category, query)


@dataclass(frozen=True)
class Factor:
    """Name, formula and description of a factor."""

    name: str
    formula: str
    description: str


FACTOR_WORDS = {
    "C": Factor(
        "Core Identity",
        "C = exp(-lambda_C * D_identity) * exp(-mu_C * K_contradiction)",
        "Whether the agent keeps its identity. C falls with changes of the name and with actions that the conscience "
        "overrode.",
    ),
    "I_int": Factor(
        "Integrity",
        "I_int = I_chain * I_coverage * I_replay",
        "Whether the record can be trusted. I_int falls with traces that are not valid in the signed chain, missing "
        "fields, and sampled decisions that do not follow from their recorded inputs.",
    ),
    "R": Factor(
        "Resilience",
        "R = norm((1 - delta_drift) * 1/(1 + mttr_hours/tau) * (1 - rho_regression))",
        "Whether the agent behaves as before and recovers quickly. R falls with drift from its own baseline, "
        "with the hours that fragile episodes last, and with relapses.",
    ),
    "I_inc": Factor(
        "Incompleteness Awareness",
        "I_inc = (1 - ECE) * Q_deferral * (1 - U_unsafe)",
        "Whether the agent knows what it does not know. I_inc falls with miscalibrated confidence, with poor "
        "deferrals, and with failed actions under high uncertainty.",
    ),
    "S": Factor(
        "Sustained Coherence",
        "S = mean over the window of sigma(t)/sigma_max(t)",
        "Whether the agent stays coherent over time. sigma(t) is the weight of the verified and coherent signals up "
        "to the period end t, sigma_max(t) that of all signals; older signals have less weight.",
    ),
}
"""Name, formula (scoring.md §3 to §7) and description of each factor."""

FACTOR_NAMES = {factor: words.name.capitalize() for factor, words in FACTOR_WORDS.items()}

COMPONENT_WORDS: Mapping[str, str] = {
    one.component: one.component_words for one in COMPONENT_ROWS if one.component_words
}
"""Description of each value in fct_factor_components, by component."""

WIDENED_BY: Mapping[str, str] = {
    "q_deferral": "few deferrals were judged",
    "mttr_hours": "there were few fragile episodes",
}
"""Reason why an interval is wide, by the loss component that widens it most. For other loss components see
`widened_by`."""


def named(loss_component: str, chain_cause: str | None = None) -> str:
    """Return the description of a loss component followed by its name in parentheses.

    :param chain_cause: description of i_chain, see `Score.chain_cause`.
    """
    words = chain_cause if chain_cause and loss_component == "i_chain" else LOSS_WORDS[loss_component]
    return f"{words} ({loss_component})"


def widened_by(component: str) -> str:
    """Return why an interval is wide, from the loss component that widens it most."""
    return WIDENED_BY.get(component, f"of the uncertainty about {LOSS_WORDS[component]}")


ENTRY = re.compile(r"\*\*(.+?)\.?\*\*,?(.*)", re.DOTALL)
"""Paragraph of an entry: the term in bold, then its meaning."""
LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
"""Link in Markdown, of which only the text is shown."""


@dataclass(frozen=True)
class Term:
    """An entry of the glossary."""

    term: str
    meaning: str
    """Text of the entry. Code is between backticks."""

    @property
    def place(self) -> str:
        """Anchor of the term in a URL."""
        return re.sub(r"\W+", "-", self.term.partition(",")[0].lower())


@cache
def glossary() -> tuple[Term, ...]:
    """Read the glossary, in alphabetical order."""
    page = own_project().joinpath("docs/glossary.md").read_text(encoding="utf-8")
    entries = (ENTRY.fullmatch(paragraph.strip()) for paragraph in page.split("\n\n"))
    return tuple(Term(entry[1], " ".join(LINK.sub(r"\1", entry[2]).split())) for entry in entries if entry is not None)
