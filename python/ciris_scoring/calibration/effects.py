"""What each value of a parameter and each part of a score does to a fleet, and to telling good from bad."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ciris_scoring.calibration.discrimination import (
    Estimate,
    auc_estimate,
    difference_estimate,
    discrimination,
)
from ciris_scoring.calibration.formulas import (
    OF_THE_SCORE,
    WEIGHTS,
    Components,
    Floats,
    capacity_score,
    capacity_score_geometric,
    category_numbers,
    reweighted,
    without_part,
)
from ciris_scoring.calibration.parameters import Range, values_to_try
from ciris_scoring.calibration.published import Category, Scores

LEAST_AGENTS = 10
"""Agents of each class below which no difference is judged: the normal approximation needs some."""


@dataclass(frozen=True)
class Setting:
    """One value of one parameter."""

    parameter: str
    value: float
    in_force: bool
    parameters: Mapping[str, float]
    """Every parameter with it; another weight changes the others too."""

    @property
    def composite(self) -> str:
        """The composite that the parameter changes."""
        return "capacity_score_geometric" if self.parameter in WEIGHTS else "capacity_score"


@dataclass(frozen=True)
class CategoryCounts:
    """A fleet with one value of a parameter."""

    setting: Setting
    counts: Mapping[str, int]
    """Agents per category."""
    changed: float
    """Share of the agents that are in another category than with the value in force."""


@dataclass(frozen=True)
class Drivers:
    """What drives the ranking."""

    shares: Mapping[str, float] | None
    """Covariance share of each part's loss in the variance of ln score, the largest first; None without variance."""
    n_agents: int
    n_zero: int
    """Agents with score 0, which are left out."""


@dataclass(frozen=True)
class Told:
    """How one version of a score tells good from bad."""

    auc: Estimate
    difference: Estimate
    """To today's values."""
    jointly: Estimate
    """The same difference, with limits that hold for all differences together (Bonferroni)."""


@dataclass(frozen=True)
class Judgement:
    """How well versions of the score tell labelled spans apart."""

    today: Mapping[str, Estimate]
    """AUC by composite."""
    settings: Sequence[tuple[Setting, Told]]
    without: Mapping[str, Told]
    """By part."""
    spans: Mapping[str, int]
    agents: Mapping[str, int]
    """Spans with a score and their agents, by label."""
    n_unscored: int
    """Spans without a scored as-of."""
    n_differences: int
    is_judged: bool
    """Whether both classes have LEAST_AGENTS agents."""


def settings_of(ranges: Mapping[str, Range]) -> list[Setting]:
    """List every value of every covered parameter."""
    today = {name: allowed.value for name, allowed in ranges.items()}
    settings = []
    for name in (*OF_THE_SCORE, *WEIGHTS):
        for value in values_to_try(ranges[name]):
            in_force = value == today[name]
            change = reweighted(today, name, value) if name in WEIGHTS else {**today, name: value}
            settings.append(Setting(name, value, in_force, today if in_force else change))
    return settings


def scores_with(setting: Setting, scores: Scores) -> Floats:
    """Compute the composite with a setting, (n,); as published where it is in force."""
    if setting.in_force:
        return published(setting.composite, scores)
    formula: Callable[[Components, Mapping[str, float]], Floats] = (
        capacity_score_geometric if setting.parameter in WEIGHTS else capacity_score
    )
    return formula(scores.components, setting.parameters)


def published(composite: str, scores: Scores) -> Floats:
    """Return a composite as published, (n,)."""
    return scores.capacity_score if composite == "capacity_score" else scores.capacity_score_geometric


def category_counts(
    settings: Sequence[Setting], scores: Scores, categories: Sequence[Category]
) -> list[CategoryCounts]:
    """Count the agents per category for each setting; of the geometric composite for weights, by the same bounds."""
    bounds = np.array([category.lower_bound for category in categories])
    table = []
    for setting in settings:
        numbers = category_numbers(scores_with(setting, scores), bounds)
        today = category_numbers(published(setting.composite, scores), bounds)
        counts = np.bincount(numbers, minlength=len(categories))
        named = {category.name: int(count) for category, count in zip(categories, counts, strict=True)}
        table.append(CategoryCounts(setting, named, float(np.mean(numbers != today))))
    return table


def drivers(scores: Scores) -> Drivers:
    """Share out the variance of ln score over agents among the parts; the shares sum to 1.

    The share of a part is cov(loss of the part, total loss) / var(total loss), since the losses add up to -ln score. It
    is negative for a part that is worse where the others are better.
    """
    positive = scores.capacity_score > 0
    losses = scores.losses[positive]
    n_agents, n_zero = int(positive.sum()), int((~positive).sum())
    if n_agents < 2:
        return Drivers(None, n_agents, n_zero)
    centred = losses - losses.mean(axis=0)
    total = centred.sum(axis=1)
    variance = float(total @ total)
    if variance <= 1e-24:
        return Drivers(None, n_agents, n_zero)
    shares = (centred.T @ total) / variance
    order = np.argsort(-shares, kind="stable")
    return Drivers({scores.parts[i]: float(shares[i]) for i in order}, n_agents, n_zero)


def judge(
    settings: Sequence[Setting], scores: Scores, is_good: NDArray[np.bool_], agents: NDArray[np.int64]
) -> Judgement | None:
    """Compare how versions of the score tell good spans from bad ones.

    A span counts with the mean over its as-ofs.

    :param scores: of the as-ofs in spans.
    :param is_good: (spans,) by span.
    :param agents: (spans,) number of the agent.
    :returns: None when good or bad has no span with a score.
    """
    present, row_span = np.unique(scores.span, return_inverse=True)
    is_good_here, agents_here = is_good[present], agents[present]
    if is_good_here.all() or not is_good_here.any():
        return None
    composites = ("capacity_score", "capacity_score_geometric")
    varied = [setting for setting in settings if not setting.in_force]
    versions = [
        *(published(composite, scores) for composite in composites),
        *(scores_with(setting, scores) for setting in varied),
        *(without_part(scores.losses, part) for part in range(len(scores.parts))),
    ]
    n_as_ofs = np.bincount(row_span)
    means = np.stack([np.bincount(row_span, weights=version) / n_as_ofs for version in versions])
    found = discrimination(means, is_good_here, agents_here)
    n_differences = len(varied) + len(scores.parts)

    def told(version: int, reference: int) -> Told:
        return Told(
            auc_estimate(found, version),
            difference_estimate(found, version, reference),
            difference_estimate(found, version, reference, 1 - 0.05 / n_differences),
        )

    first = len(composites)
    numbers = {id(setting): first + i for i, setting in enumerate(varied)}
    classes = {"good": is_good_here, "bad": ~is_good_here}
    n_agents = {label: int(np.unique(agents_here[chosen]).size) for label, chosen in classes.items()}
    return Judgement(
        today={composite: auc_estimate(found, i) for i, composite in enumerate(composites)},
        settings=[
            (setting, told(numbers.get(id(setting), reference), reference))
            for setting in settings
            for reference in [composites.index(setting.composite)]
        ],
        without={part: told(first + len(varied) + i, 0) for i, part in enumerate(scores.parts)},
        spans={label: int(chosen.sum()) for label, chosen in classes.items()},
        agents=n_agents,
        n_unscored=int(is_good.size - present.size),
        n_differences=n_differences,
        is_judged=min(n_agents.values()) >= LEAST_AGENTS,
    )
