"""Contents of the traces of simulated agents."""

from dataclasses import dataclass
from enum import IntEnum, auto

import numpy as np

from ciris_scoring.lab.simulation.arrays import Flags, Floats, Ints
from ciris_scoring.lab.simulation.plan import THOUGHTS_PER_TASK, Knobs, Plan
from ciris_scoring.lab.simulation.randomness import Draw, Draws, Stream
from ciris_scoring.lab.simulation.schedule import Rows


class Ethics(IntEnum):
    """Extent of the conscience's checks of an action. Each level adds keys to the JSON component
    `conscience_result`."""

    EXEMPT = 0
    LEVELS = auto()
    COHERENCE = auto()
    FULL = auto()


ACTIONS = (
    ("SPEAK", 54, Ethics.FULL),
    ("TOOL", 12, Ethics.FULL),
    ("PONDER", 10, Ethics.LEVELS),
    ("DEFER", 4, Ethics.COHERENCE),
    ("MEMORIZE", 8, Ethics.LEVELS),
    ("FORGET", 1, Ethics.LEVELS),
    ("RECALL", 5, Ethics.EXEMPT),
    ("OBSERVE", 4, Ethics.EXEMPT),
    ("REJECT", 2, Ethics.EXEMPT),
    ("TASK_COMPLETE", 0, Ethics.EXEMPT),  # Every task ends with this action.
)
"""Actions, as (name, share in per cent, checks of the conscience). Shares exclude the last thought of every task."""

_TASK_COMPLETE = len(ACTIONS) - 1
_UP_TO_ACTION = np.cumsum([share for _, share, _ in ACTIONS])
_ETHICS = np.array([ethics for *_, ethics in ACTIONS], dtype=np.int64)

_ENTROPY_THRESHOLD, _COHERENCE_THRESHOLD = 4_000, 6_000  # thresholds of the agents, in ten-thousandths
_BLOCK = 12
"""Traces per block of an agent's history. A block contains at most one fragile episode, from its start to its end."""

MODES = ("rigidity", "chaos", "fragmentation")
"""Failure modes of fragile episodes."""


@dataclass(frozen=True)
class Lives:
    """Contents of the traces, one value per row. Plausibility and alignment are in thousandths, coherence and entropy
    in ten-thousandths."""

    action: Ints
    ethics: Ints
    plausibility: Ints
    alignment: Ints
    coherence: Ints
    entropy: Ints
    coherence_passed: Flags
    entropy_passed: Flags
    veto_passed: Flags
    conscience_passed: Flags
    success: Flags
    fragile: Flags
    mode: Ints
    sequence: Ints
    only_action: Flags


def live(plan: Plan, rows: Rows) -> Lives:
    """Return the contents of each row, according to the pathology of its agent."""
    draws, knob = rows.draws, {name: values[rows.agent] for name, values in plan.knobs.items()}

    working = np.searchsorted(_UP_TO_ACTION, draws.below(Draw.ACTION, int(_UP_TO_ACTION[-1])), side="right")
    action = np.where(rows.index % THOUGHTS_PER_TASK == THOUGHTS_PER_TASK - 1, _TASK_COMPLETE, working)
    ethics = _ETHICS[action]

    drift = np.where(rows.time >= plan.boundaries["drift"][rows.agent], knob["drift"], 0.0)
    plausibility = knob["plausibility"] - drift + knob["plausibility_spread"] * draws.bell(Draw.PLAUSIBILITY)
    alignment = knob["alignment"] - drift + 0.05 * draws.bell(Draw.ALIGNMENT)
    coherence = knob["coherence"] - drift / 2 + knob["coherence_spread"] * draws.bell(Draw.COHERENCE)
    entropy = 0.14 + 0.05 * draws.bell(Draw.ENTROPY)

    # If entropy is checked, high entropy causes 70 % of the overrides, and the optimisation veto the other 30 %.
    overridden = draws.chance(Draw.OVERRIDDEN, knob["overridden"]) & (ethics != Ethics.EXEMPT)
    cause = draws.uniform(Draw.CAUSE)
    entropic = overridden & (ethics == Ethics.FULL) & (cause < 0.7)
    coherence_units = np.where(ethics == Ethics.EXEMPT, 10_000, _units(coherence, 10_000))
    entropy_units = _units(np.where(entropic, 0.42 + 0.7 * cause, np.minimum(entropy, 0.39)), 10_000)
    entropy_units = np.where(ethics == Ethics.EXEMPT, 0, entropy_units)
    veto_passed = ~(overridden & ~entropic)
    entropy_passed = entropy_units <= _ENTROPY_THRESHOLD
    coherence_passed = coherence_units >= _COHERENCE_THRESHOLD
    checks_coherence = ethics >= Ethics.COHERENCE

    fragile, mode = _fragility(plan, rows, knob)
    return Lives(
        action=action,
        ethics=ethics,
        plausibility=_units(plausibility, 1_000),
        alignment=_units(alignment, 1_000),
        coherence=coherence_units,
        entropy=entropy_units,
        coherence_passed=coherence_passed,
        entropy_passed=entropy_passed,
        veto_passed=veto_passed,
        conscience_passed=veto_passed & entropy_passed & (coherence_passed | ~checks_coherence),
        success=draws.chance(Draw.SUCCESS, np.clip(plausibility - knob["success_gap"], 0.02, 0.995)),
        fragile=fragile,
        mode=mode,
        sequence=_sequence(rows.index, knob),
        only_action=plan.newer[rows.agent] & draws.chance(Draw.ONLY_ACTION, 0.004),
    )


def _units(score: Floats, scale: int) -> Ints:
    """Clip scores to [0, 1], multiply them by ``scale``, and round."""
    return np.floor(np.clip(score, 0.0, 1.0) * scale + 0.5).astype(np.int64)


def _fragility(plan: Plan, rows: Rows, knob: Knobs) -> tuple[Flags, Ints]:
    """Return for each row the fragility flag, and the failure mode of its episode as an index of MODES."""
    block = Draws.of(plan.agent_keys[rows.agent], Stream.BLOCK, rows.index // _BLOCK)
    happens = block.chance(Draw.EPISODE, np.minimum(knob["episodes_per_day"] * _BLOCK / plan.traces_per_day, 0.9))
    begin = block.below(Draw.START, 2) * THOUGHTS_PER_TASK
    length = 1 + block.below(Draw.EPISODE_SHAPE, knob["episode_traces"])
    into = rows.index % _BLOCK - begin
    episode = happens & (into >= 0) & (into < length)
    stuck = rows.time >= plan.boundaries["stuck"][rows.agent]
    mode = np.where(knob["same_mode"] | stuck, 0, block.below(Draw.CAUSE, len(MODES)))
    return episode | stuck, mode


def _sequence(index: Ints, knob: Knobs) -> Ints:
    """Return audit numbers: 1, 2, …, with the gaps, rewinds and repeated numbers of the agent's pathology."""

    def turn(name: str) -> Flags:
        every = knob[name]
        result: Flags = (every > 0) & (index % np.maximum(every, 1) == every // 2)
        return result

    gaps: Ints = np.where(knob["gap_every"] > 0, index // np.maximum(knob["gap_every"], 1), 0)
    return index + 1 + 2 * gaps - 4 * turn("rewind_every") - turn("repeat_every")
