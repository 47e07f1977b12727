"""The parameters, windows and categories that the scores are made with."""

from dataclasses import dataclass

from ciris_scoring.reading.marts import Marts


@dataclass(frozen=True, slots=True)
class Parameter:
    """A row of dim_scoring_parameters; the value is null for the sampling salt, which is not published."""

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
    """A row of dim_capacity_categories; units and nulls are those of the mart."""

    category: str
    label: str
    guidance: str
    lower_bound: float | None
    upper_bound: float | None
    colour: str


def parameters(marts: Marts) -> list[Parameter]:
    """Read the parameters in force, in the order of the specification's sections."""
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
    return marts.rows(
        Window,
        "select {columns} from {dim_scoring_windows} order by window_days",
    )


def categories(marts: Marts) -> list[Category]:
    """Read the categories, the lowest first."""
    return marts.rows(
        Category,
        """
        select {columns}
        from {dim_capacity_categories}
        order by lower_bound nulls first
        """,
    )
