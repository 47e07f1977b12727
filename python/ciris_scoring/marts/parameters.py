"""Parameters, windows and categories that the scores are computed with."""

from dataclasses import dataclass

from ciris_scoring.database.terminal import inside_sentence
from ciris_scoring.marts.marts import Marts


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
