"""How often the alert ``falling`` is raised on agents that did not change, and on agents that did."""

from typing import NamedTuple

import numpy as np

from benchmarks.coverage.behaviour import (
    RATES,
    Behaviour,
    DayEffects,
    Facts,
    draw,
    draw_events,
    realised,
)
from benchmarks.coverage.cases import (
    CORROBORATED,
    DEFERRALS_PER_WEEK,
    EPISODES,
    FLEET,
    MOST_ICC,
    SIZES,
    WINDOWS,
    elsewhere,
    stationary,
    traces_per_day,
)
from benchmarks.coverage.measure import PARAMETERS, limits_of_fleets
from benchmarks.coverage.truth import truth
from ciris_scoring.statistics.inputs import Booleans, Floats, Window
from ciris_scoring.statistics.intervals import COMPONENTS, GOOD_SHARES, Intervals
from ciris_scoring.statistics.resilience import sigmoid

LEAST_FALL = 0.15 / 3
"""A third of ``falling_threshold``."""
Z_OF_ALL, Z_OF_ONE = 2.8, 3.8
LEAST_LOSS_OF_ONE = 0.02
LEAST_UNDER_LOG = 1e-9
DAYS_WATCHED = 28

PARTS = tuple(component for component in COMPONENTS if component not in ("mttr_hours", "q_deferral"))


class Losses(NamedTuple):
    """Losses of the nine parts of behaviour, (..., 9) each; NaN where a part is unmeasured."""

    loss: Floats
    worse: Floats
    better: Floats


def losses(limits: Intervals) -> Losses:
    """Losses of rows at their published values and limits (certainty.md §4)."""

    def loss(part: str, value: Floats) -> Floats:
        if part in ("d_identity", "k_contradiction"):
            return (PARAMETERS.lambda_c if part == "d_identity" else PARAMETERS.mu_c) * value
        kept = value if part in GOOD_SHARES else 1 - value
        if part == "delta_drift":
            kept = sigmoid(kept, PARAMETERS.norm_k, PARAMETERS.norm_x0)
        result: Floats = -np.log(np.maximum(kept, LEAST_UNDER_LOG))
        return result

    columns = []
    for part in PARTS:
        at = COMPONENTS.index(part)
        value, ends = limits.component[:, at], (limits.component_low[:, at], limits.component_high[:, at])
        worse, better = ends if part in GOOD_SHARES else ends[::-1]
        three = np.stack([loss(part, one) for one in (value, worse, better)])
        columns.append(np.where(np.isnan(limits.design_effect[:, at]), np.nan, three))
    return Losses(*np.stack(columns, axis=-1))


def is_falling(before: Losses, now: Losses) -> Booleans:
    """Whether ``falling`` is raised, (...,); a part that is unmeasured on either side is left out."""
    change = now.loss - before.loss
    variance = ((before.worse - before.loss) / 1.96) ** 2 + ((now.loss - now.better) / 1.96) ** 2
    both = ~np.isnan(change)
    fall = np.exp(-np.sum(before.loss, axis=-1, where=both)) - np.exp(-np.sum(now.loss, axis=-1, where=both))
    together = np.sum(change, axis=-1, where=both) >= Z_OF_ALL * np.sqrt(
        np.sum(variance, axis=-1, where=both)
    )
    alone = np.any((change > LEAST_LOSS_OF_ONE) & (change >= Z_OF_ONE * np.sqrt(variance)), axis=-1)
    raised: Booleans = (fall >= LEAST_FALL) & (together | alone)
    return raised


class Unchanged(NamedTuple):
    """Alerts on agents that did not change."""

    name: str
    agent_days: int
    raised: float
    """Share of agents' days with the alert."""
    agents_raised: float
    """Share of agents with the alert on any of ``DAYS_WATCHED`` days."""


class Dropped(NamedTuple):
    """Alerts on agents that got worse."""

    name: str
    kind: str
    """What got worse."""
    agents: int
    within_a_window: float
    """Share of agents with the alert on one of the first 7 days."""
    ever: float
    """Share with the alert on one of ``DAYS_WATCHED`` days."""


class Cell(NamedTuple):
    """Plausible agents that do not change."""

    n: int
    """Traces in the window."""
    window: Window
    days_differ: bool
    events: bool
    """Whether fragile episodes and deferrals come and go."""

    @property
    def name(self) -> str:
        """As the tables have it."""
        return (
            f"n = {self.n}, {self.window.window_days} days, days {'differ' if self.days_differ else 'alike'}, "
            f"{'events come and go' if self.events else 'no events'}"
        )


CELLS = [
    Cell(n, window, days_differ, events)
    for window in WINDOWS.values()
    for days_differ in (False, True)
    for events in (False, True)
    for n in SIZES
]


class Drop(NamedTuple):
    """By how much the true score of plausible agents falls."""

    by: float
    """A window of 7 days after the change."""
    n: int
    """Traces in the window."""
    days_differ: bool

    @property
    def name(self) -> str:
        """As the tables have it."""
        return f"{self.by} at {self.n} traces, days {'differ' if self.days_differ else 'alike'}"


DROPS = [
    Drop(by, n, days_differ)
    for by, n in ((0.2, 600), (0.2, 100), (0.4, 100))
    for days_differ in (False, True)
]
DRIFT = "drift"
KINDS = ("overridden", "chain_broken", "unsafe", "poor", DRIFT)
"""What gets worse: a rate, or where the metrics lie."""
ANY_KIND = "any of these"
LEAST_LEFT = 0.1
"""Score that agents have left after the drop, at least."""


def unchanged(cell: Cell, agents: int, seed: int) -> Unchanged:
    """Watch agents that do not change."""
    rng = np.random.default_rng([seed, *cell.name.encode()])
    behaviour, facts = _agents(agents, cell.n, cell.window, rng)
    raised = _watch(behaviour, facts, cell.window, rng, days_differ=cell.days_differ, events=cell.events)
    return Unchanged(cell.name, raised.size, float(np.mean(raised)), float(np.mean(np.any(raised, axis=1))))


def dropped(drop: Drop, kind: str, agents: int, seed: int) -> Dropped:
    """Watch agents from the day on which they get worse for good: of plausible ones those that can fall so far."""
    window = WINDOWS[7]
    rng = np.random.default_rng([seed, *f"{drop.name} {kind}".encode()])
    behaviour, facts = _agents(agents, drop.n, window, rng)
    end = behaviour.rates.shape[1] - DAYS_WATCHED + window.window_days

    def true_score(extent: Floats) -> Floats:
        return truth(_worsened(behaviour, kind, extent), facts, window, PARAMETERS, end).capacity

    agents = len(behaviour.rates)
    aim = true_score(np.zeros(agents)) - drop.by
    least, most = np.zeros(agents), np.ones(agents)
    for _ in range(20):
        middle = (least + most) / 2
        far = true_score(middle) < aim
        least, most = np.where(far, least, middle), np.where(far, middle, most)
    worse = _worsened(behaviour, kind, most)
    raised = _watch(worse, facts, window, rng, days_differ=drop.days_differ, events=True)
    raised = raised[(aim >= LEAST_LEFT) & (true_score(most) <= aim)]
    return Dropped(
        drop.name,
        kind,
        len(raised),
        float(np.mean(np.any(raised[:, : window.window_days], axis=1))),
        float(np.mean(np.any(raised, axis=1))),
    )


def together(of_drop: list[Dropped]) -> Dropped:
    """All agents of a drop, whatever got worse."""
    agents = np.array([one.agents for one in of_drop])
    within = np.average([one.within_a_window for one in of_drop], weights=agents)
    ever = np.average([one.ever for one in of_drop], weights=agents)
    return Dropped(of_drop[0].name, ANY_KIND, int(agents.sum()), float(within), float(ever))


def _worsened(behaviour: Behaviour, kind: str, extent: Floats) -> Behaviour:
    """Behaviour of which the last ``DAYS_WATCHED`` days are worse, up to all bad at an extent of 1."""
    late, by = slice(-DAYS_WATCHED, None), extent[:, None]
    rates, histograms = behaviour.rates.copy(), behaviour.histograms.copy()
    if kind == DRIFT:
        histograms[:, late] += by[..., None, None] * (elsewhere() - histograms[:, late])
    else:
        rates[:, late, RATES.index(kind)] += by * (1 - rates[:, late, RATES.index(kind)])
    return behaviour._replace(rates=rates, histograms=histograms)


def _agents(agents: int, n: int, window: Window, rng: np.random.Generator) -> tuple[Behaviour, Facts]:
    """Whole fleets of plausible agents without events, over what is watched and its memory."""
    agents = -(-agents // FLEET) * FLEET
    days = window.memory_days + window.window_days + DAYS_WATCHED
    traces = traces_per_day(n, window, agents, days, rng)
    good = rng.uniform(0.6, 1.0, agents)
    facts = Facts(
        n_traces=traces,
        n_corroborated=rng.binomial(traces, CORROBORATED),
        n_episodes=np.zeros(agents, dtype=np.int64),
        mean_hours=10.0 ** rng.uniform(-1.5, 0.5, agents),
        rho_regression=np.zeros(agents),
        n_deferrals=np.zeros(agents, dtype=np.int64),
        deferral_outcomes=np.stack([good, (1 - good) / 2, (1 - good) / 2], axis=-1),
    )
    return stationary(agents, days, rng), facts


def _watch(
    behaviour: Behaviour,
    facts: Facts,
    window: Window,
    rng: np.random.Generator,
    *,
    days_differ: bool,
    events: bool,
) -> Booleans:
    """Where the alert is raised, (agents, DAYS_WATCHED), one as-of a day."""
    agents, days = len(facts.n_traces), facts.n_traces.shape[1]
    effects = DayEffects(rng.uniform(0, MOST_ICC if days_differ else 0.0, agents))
    sums = draw(realised(behaviour, effects, rng), facts, effects, rng)
    as_ofs = list(range(days - DAYS_WATCHED - window.window_days + 1, days + 1))
    per_day = (EPISODES / window.window_days, DEFERRALS_PER_WEEK / 7) if events else (0.0, 0.0)
    given = draw_events(*per_day, facts, as_ofs, window.window_days, rng)
    limits = limits_of_fleets(sums, given, window, as_ofs, FLEET)
    shape = (agents, len(as_ofs), len(PARTS))
    of_days = [values.reshape(shape) for values in losses(limits)]
    before = Losses(*(values[:, : -window.window_days] for values in of_days))
    now = Losses(*(values[:, window.window_days :] for values in of_days))
    scored = ~np.isnan(limits.capacity_score.reshape(shape[:2]))
    raised: Booleans = (
        is_falling(before, now) & scored[:, : -window.window_days] & scored[:, window.window_days :]
    )
    return raised
