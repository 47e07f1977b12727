"""JSON components of simulated traces, in the formats of the older and the newer version of agents."""

import itertools

import numpy as np

from ciris_scoring.lab.simulation.arrays import Flags, Ints, Texts
from ciris_scoring.lab.simulation.lives import Ethics, Lives
from ciris_scoring.lab.simulation.plan import THOUGHTS_PER_TASK
from ciris_scoring.lab.simulation.randomness import Draw
from ciris_scoring.lab.simulation.schedule import Rows
from ciris_scoring.lab.simulation.spellings import spellings


def thought_start(rows: Rows, newer: Flags) -> Texts:
    """Return the JSON component `thought_start` of each row."""

    def text(channel: int, newer: bool, priority: int, depth: int) -> str:
        more = (
            f',"channel_id":"api_chan_{channel}","thought_status":"processing",'
            f'"thought_type":"{"follow_up" if depth else "standard"}"'
        )
        return (
            f'{{"attempt_index":0,"round_number":0,"task_priority":{priority},"thought_depth":{depth},'
            f'"updated_info_available":false{more if newer else ""}}}'
        )

    choices = (range(8), (False, True), (0, 5), range(THOUGHTS_PER_TASK))
    texts: Texts = np.array([text(*choice) for choice in itertools.product(*choices)], dtype=object)
    urgent = rows.draws.below(Draw.PRIORITY, 2)
    channel_and_version = rows.agent % 8 * 2 + newer
    depth = rows.index % THOUGHTS_PER_TASK
    result: Texts = texts[(channel_and_version * 2 + urgent) * THOUGHTS_PER_TASK + depth]
    return result


def dma_results(lives: Lives, newer: Flags, inconsistent: Flags) -> Texts:
    """Return the JSON component `dma_results` of each row.

    Older agents write scores with two decimals. Newer agents write every score twice, with three decimals; the columns
    of the table have the scores rounded to two.
    """
    spelled = spellings()
    plausibility = np.where(inconsistent, np.maximum(lives.plausibility - 150, 0), lives.plausibility)

    def text(score: Ints) -> list[str]:
        coarse = spelled["score_json"][(score + 5) // 10]
        result: list[str] = np.where(newer, spelled["score_json_fine"][score], coarse).tolist()
        return result

    twice = (
        '{{"csdma":{{"plausibility_score":{0}}},"csdma_plausibility_score":{0},'
        '"dsdma":{{"domain":"general","domain_alignment":{1}}},"dsdma_domain_alignment":{1}}}'
    ).format
    once = '{{"csdma":{{"plausibility_score":{0}}},"dsdma":{{"domain_alignment":{1}}}}}'.format
    values = zip(text(plausibility), text(lives.alignment), strict=True)
    return np.array([(twice if n else once)(*v) for n, v in zip(newer.tolist(), values, strict=True)], dtype=object)


_CONSCIENCE_KEYS = {
    # Keys have the order that real agents use. A number in braces is the position of a value in
    # `arguments` of the function conscience_result.
    Ethics.EXEMPT: '"coherence_level":1.0,"conscience_passed":{1},"entropy_level":0.0,',
    Ethics.LEVELS: '"coherence_level":{2},"conscience_passed":{1},"entropy_level":{3},{veto}',
    Ethics.COHERENCE: (
        '"coherence_level":{2},"coherence_passed":{4},"coherence_score":{2},"coherence_threshold":0.6,'
        '"conscience_passed":{1},"entropy_level":{3},{veto}'
    ),
    Ethics.FULL: (
        '"coherence_level":{2},"coherence_passed":{4},"coherence_score":{2},"coherence_threshold":0.6,'
        '"conscience_passed":{1},"entropy_level":{3},"entropy_passed":{5},"entropy_score":{3},'
        '"entropy_threshold":0.4,{veto}'
    ),
}
_VETO_KEYS = (
    '"epistemic_humility_certainty":0.7,"epistemic_humility_passed":true,"ethical_faculties_skipped":false,'
    '"optimization_veto_entropy_ratio":0.1,"optimization_veto_passed":{6},"thought_depth_triggered":false,'
)


def conscience_result(lives: Lives, action: Texts, newer: Flags, inconsistent: Flags) -> Texts:
    """Return the JSON component `conscience_result` of each row."""
    spelled = spellings()
    final_action = np.where(newer, ',"final_action":"' + action + '"', "")
    arguments = (
        spelled["boolean"][(~lives.conscience_passed).astype(np.int64)],
        spelled["boolean"][(lives.conscience_passed ^ inconsistent).astype(np.int64)],
        spelled["level_json"][lives.coherence],
        spelled["level_json"][lives.entropy],
        spelled["boolean"][lives.coherence_passed.astype(np.int64)],
        spelled["boolean"][lives.entropy_passed.astype(np.int64)],
        spelled["boolean"][lives.veto_passed.astype(np.int64)],
        final_action,
    )
    result = np.empty(lives.ethics.size, dtype=object)
    for ethics, keys in _CONSCIENCE_KEYS.items():
        template = (
            '{{"action_was_overridden":{0},"attempt_index":0,'
            + keys.replace("{veto}", _VETO_KEYS)
            + '"is_recursive":false,"updated_status_detected":false{7}}}'
        ).format
        where = np.flatnonzero(lives.ethics == ethics)
        result[where] = list(map(template, *(argument[where].tolist() for argument in arguments)))
    return result


def action_result(
    rows: Rows,
    lives: Lives,
    lower: Texts,
    audit_hash: list[str],
    sequence: list[str],
    newer: Flags,
    inconsistent: Flags,
) -> Texts:
    """Return the JSON component `action_result` of each row."""
    spelled, succeeded = spellings(), (lives.success ^ inconsistent).astype(np.int64)
    executed = np.where(newer, '"action_executed":"' + lower + '",', "")
    also = np.where(newer, np.array([',"success":false', ',"success":true'], dtype=object)[succeeded], "")
    template = (
        '{{{}"attempt_index":0,"audit_entry_hash":"{}","audit_sequence_number":{},"execution_success":{},'
        '"execution_time_ms":{},"has_execution_error":{},"has_positive_moment":false{}}}'
    ).format
    arguments = (
        executed.tolist(),
        audit_hash,
        sequence,
        spelled["boolean"][succeeded].tolist(),
        spelled["execution_ms"][rows.draws.below(Draw.DURATION, spelled["execution_ms"].size)].tolist(),
        spelled["boolean"][1 - succeeded].tolist(),
        also.tolist(),
    )
    return np.array(list(map(template, *arguments)), dtype=object)
