"""Explain a score: its losses, its changes, and the events and traces behind them.

All data is read from the marts in one read-only transaction. docs/serving.md, "Explanations as JSON", describes the
structure of an explanation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from ciris_scoring import numbers_as_text as decimals
from ciris_scoring.database import as_of as as_of_time
from ciris_scoring.database.connection import connect
from ciris_scoring.database.dbt import read_relations
from ciris_scoring.database.project import Project
from ciris_scoring.database.terminal import aligned, columns, fitted, plural, printable, width, wrapped
from ciris_scoring.errors import InputError
from ciris_scoring.kinds import KINDS
from ciris_scoring.kinds.components import LOSS_WORDS
from ciris_scoring.marts import agent as agent_reading
from ciris_scoring.marts import agents, asking, fleet, permissions
from ciris_scoring.marts.evidence import RULES, described, episodes, lowered
from ciris_scoring.marts.marts import Marts, read_only
from ciris_scoring.marts.score import NO_TRACES, bridge
from ciris_scoring.marts.verdict import SIMULATED, verdict
from ciris_scoring.marts.words import named, widened_by
from ciris_scoring.names import FACTORS
from ciris_scoring.show.fleet_table import painted_verdict
from ciris_scoring.show.pages.words import NOT_COMPARABLE, VERDICTS
from ciris_scoring.show.pages.words import since as age

PAGE_WIDTH = 100
"""Width of the output in columns if the width of the terminal is unknown."""
NARROWEST_TABLE, WIDEST = 70, 140
BAR_WIDTH = 20
MAX_LISTED = 5
"""Number of most recent renames and episodes that are listed. Older ones are only counted."""
MAX_TRACES = 10
REASONS = "what lowered the score"
MIN_TRACE_ID_WIDTH = 12
BESIDE_TRACE_ID = 32
"""Number of characters in the line of a trace besides its id: points, time and spaces."""

COMPARED = {"window": "one window before", "as_of": "the as-of before", "since": "as requested"}
RULE = (
    "Points are divided equally among the traces of the window that lowered the component. But points of missing "
    "fields are divided in proportion to the missing fields, and points of slow recovery in proportion to the hours of "
    "the episodes. Incoherent signals may be older than the window. Fixed cost, drift, miscalibration and deferrals "
    "judged poor are not attributed to single traces."
)
"""Rule by which points are attributed to traces."""

Row = dict[str, Any]


def explain(
    project: Project,
    agent: str,
    as_of: str | None,
    window_days: int | None,
    since: str | None,
    threshold: float | None = None,
    permission: str | None = None,
) -> dict[str, Any]:
    """Read the explanation of a score. docs/serving.md describes its structure.

    :param agent: hash, beginning of a hash, name or label.
    :param as_of: as-of of the score; None for the agent's newest.
    :param window_days: window of the score; None for the shortest window in which the agent has a score.
    :param since: earlier as-of to compare with.
    :param threshold: see `verdict`.
    :param permission: name of a permission, which decides threshold and window.
    :raises InputError: the agent or a score does not exist, or the agent is ambiguous.
    :raises DatabaseError: nothing is published, or the database returns an error.
    """
    moment = None if as_of is None else as_of_time.parse_time(as_of, "--as-of")
    earlier = None if since is None else as_of_time.parse_time(since, "--since")
    with connect(project) as connection, read_only(connection):
        marts = Marts(connection, read_relations(project))
        marts.require()
        if permission is not None:
            window_days = asking.permission(marts, permission, threshold, window_days).window_days
        found, note = asking.agent(marts, agent)
        window_days, as_ofs, at = asking.score_as_of(marts, found, window_days, moment)
        chosen = asking.permission(marts, permission, threshold, window_days)
        score = _score_at(marts, found.agent_id_hash, at, window_days)
        if score["score_status"] == NO_TRACES:
            score = _score_at(marts, found.agent_id_hash, score["last_scored_as_of"], window_days)
        return {
            "permission": chosen.name,
            **_verdict(marts, score, at, chosen.threshold, is_newest=at == as_ofs[-1]),
            "score": score,
            "agent_note": note,
            "loss_components": _loss_components(marts, score),
            "comparisons": _comparisons(marts, score),
            "since": None if earlier is None else _since(marts, found, score, earlier),
            "events": _events(marts, score),
            **_traces(marts, score),
            "red_flags": _red_flags(marts, score),
        }


# --- reading -------------------------------------------------------------------------------------------------------

TRACE = """
        trace_check_id, trace_id, traced_at, selected_action, audit_sequence_number,
        previous_audit_sequence_number, is_chain_gap, is_chain_rewind, is_chain_duplicate, is_signature_verified,
        is_key_registered, is_link_valid, n_fields_present, failed_comparisons, is_override_without_judgement
"""
# A trace has no points if the score is null, because a null score is not attributed.
COSTS = """
attribution as (
    select loss_component, points_lost
    from {fct_score_attribution}
    where agent_id_hash = %(agent_id_hash)s and as_of = %(as_of)s and window_days = %(window_days)s
),
shares as (
    select
        lowered.*,
        attribution.points_lost * lowered.amount / sum(lowered.amount) over component as points
    from lowered
    left join attribution on lowered.loss_component = attribution.loss_component
    -- The order is fixed, because a sum of doubles depends on it.
    window component as (
        partition by lowered.loss_component
        order by lowered.trace_check_id rows between unbounded preceding and unbounded following
    )
),
costs as (
    select
        sum(points order by loss_component collate "C") as points,
        array_agg(loss_component order by points desc nulls last, loss_component collate "C") as loss_components,
        {TRACE}
    from shares
    where points is null or points > 0
    group by {TRACE}
)
""".replace("{TRACE}", TRACE)


def _score_at(marts: Marts, agent_id_hash: str, as_of: datetime, window_days: int) -> Row:
    """Return a row of fct_capacity_scores with its certainty and verdict."""
    key = {"agent_id_hash": agent_id_hash, "as_of": as_of, "window_days": window_days}
    query = """
        select *
        from {scored}
        where agent_id_hash = %(agent_id_hash)s and window_days = %(window_days)s and as_of = %(as_of)s
    """
    return marts.dicts(query, key)[0]


def _key(score: Row) -> tuple[list[str], datetime, int]:
    """Return the arguments that functions of `ciris_scoring.marts.agent` need for a score."""
    return [score["agent_id_hash"]], score["as_of"], score["window_days"]


def _loss_components(marts: Marts, score: Row) -> list[Row]:
    counts = {
        row["loss_component"]: row["n_traces"]
        for row in marts.dicts(
            f"with {lowered()} select loss_component, count(*) as n_traces from lowered group by loss_component",
            score,
        )
    }
    return [
        {
            **_of_row(one, "factor", "loss_component", "loss", "points_lost", "rank"),
            "n_traces": counts.get(one.loss_component, 0) if one.loss_component in RULES else None,
        }
        for one in agent_reading.attribution(marts, *_key(score))
    ]


def _of_row(row: Any, *names: str) -> Row:
    return {name: getattr(row, name) for name in names}


def _comparisons(marts: Marts, score: Row) -> list[Row]:
    comparisons = marts.dicts(
        """
        select compared_with, compared_as_of, score_before, score_now, change, not_comparable_because
        from {fct_score_comparisons}
        where agent_id_hash = %(agent_id_hash)s and as_of = %(as_of)s and window_days = %(window_days)s
        order by compared_as_of, compared_with desc
        """,
        score,
    )
    return [
        {
            **comparison,
            "loss_components": [
                _of_row(one, "factor", "loss_component", "loss_change", "points", "rank")
                for one in agent_reading.changes(marts, *_key(score), compared_with=comparison["compared_with"])
            ],
        }
        for comparison in comparisons
    ]


def _since(marts: Marts, agent: agents.Agent, score: Row, earlier: datetime) -> Row:
    """Compare a score with the score of an earlier as-of. Changes by component that are not published are null."""
    if earlier >= score["as_of"]:
        raise InputError(
            f"--since is {as_of_time.text(earlier)}, which is not before the as-of {as_of_time.text(score['as_of'])}.",
            "Give an earlier as-of.",
        )
    asking.score_as_of(marts, agent, score["window_days"], earlier)
    before = _score_at(marts, agent.agent_id_hash, earlier, score["window_days"])
    is_alike = before["parameter_set_id"] == score["parameter_set_id"]
    has_scores = None not in (before["capacity_score"], score["capacity_score"])
    reason = None if is_alike and has_scores else "no_score" if is_alike else "other_parameter_set"
    published = [row for row in _comparisons(marts, score) if row["compared_as_of"] == earlier]
    return {
        "compared_with": "since",
        "compared_as_of": earlier,
        "score_before": before["capacity_score"],
        "score_now": score["capacity_score"],
        "change": None if reason else score["capacity_score"] - before["capacity_score"],
        "not_comparable_because": reason,
        "factors": {column: score[column] - before[column] for column in FACTORS.values()} if is_alike else None,
        "loss_components": published[0]["loss_components"] if published else None,
    }


def _events(marts: Marts, score: Row) -> dict[str, Any]:
    window = """
        from {fct_trace_checks}
        where
            agent_id_hash = %(agent_id_hash)s and is_counted
            and traced_at >= %(window_start)s and traced_at < %(as_of)s
    """
    [keys] = marts.dicts(
        f"""
        select count(*) as n, min(traced_at) as first_at, max(traced_at) as last_at
        {window} and not is_key_registered
        """,
        score,
    )
    [overrides] = marts.dicts(
        f"""
        select count(*) as n, count(*) filter (where is_override_without_judgement) as n_without_judgement
        {window} and is_overridden
        """,
        score,
    )
    [links] = marts.dicts(
        f"""
        select
            count(*) as n,
            count(*) filter (where is_chain_gap) as n_gaps,
            count(*) filter (where is_chain_rewind) as n_rewinds,
            count(*) filter (where is_chain_duplicate) as n_duplicates,
            count(*) filter (where not (is_chain_gap or is_chain_rewind or is_chain_duplicate)) as n_incomplete,
            min(traced_at) as first_at,
            max(traced_at) as last_at
        {window} and not is_link_valid
        """,
        score,
    )
    return {
        "renames": marts.dicts(
            f"""
            select traced_at, trace_id, previous_agent_name, agent_name
            {window} and is_identity_change
            order by traced_at, audit_sequence_number, trace_check_id
            """,
            score,
        ),
        "overrides": overrides,
        "unregistered_keys": keys,
        "broken_links": links,
        "episodes": marts.dicts(
            f"with {episodes()} select failure_mode, traced_at as detected_at, recovered_at, hours from episodes "
            "where hours is not null order by detected_at, recovered_at",
            score,
        ),
    }


def _traces(marts: Marts, score: Row) -> dict[str, Any]:
    rows = marts.dicts(
        f"""
        with {lowered()}, {COSTS}
        select costs.*, count(*) over () as n_costly_traces
        from costs
        order by points desc nulls last, cardinality(loss_components) desc, traced_at desc, trace_check_id
        limit {MAX_TRACES}
        """,
        score,
    )
    n = rows[0]["n_costly_traces"] if rows else 0
    for row in rows:
        del row["n_costly_traces"]
    return {"traces": rows, "n_costly_traces": n}


def _verdict(marts: Marts, score: Row, at: datetime, threshold: float | None, *, is_newest: bool) -> Row:
    """Return score and main cause in words, and the verdict and the raised alerts and red flags of an as-of. It is the
    as-of of the score unless the agent is silent; then the last score is explained."""
    newest = fleet.newest(marts, score["window_days"])
    raised_at = newest.as_of if newest and is_newest else at
    of = {"window_days": score["window_days"], "agent_id_hash": score["agent_id_hash"]}
    [now] = fleet.scores(marts, at, **of, raised_at=raised_at)
    [found] = [now] if at == score["as_of"] else fleet.scores(marts, score["as_of"], **of)
    return {
        "silence": now.silence or None,
        "words": found.words,
        "cause": found.cause,
        "chain_cause": found.chain_cause,
        "steady_difference": found.steady_difference,
        "verdict": asdict(verdict(now, threshold)),
        "raised": [{**asdict(one), "reviews": one.reviews} for one in now.raised],
    }


def _red_flags(marts: Marts, score: Row) -> list[Row]:
    return marts.dicts(
        """
        select red_flag, field, value, comparison_value, compared_with, z, message
        from {fct_red_flags}
        where agent_id_hash = %(agent_id_hash)s and as_of = %(as_of)s and window_days = %(window_days)s
        order by red_flag collate "C", field collate "C"
        """,
        score,
    )


# --- the page ------------------------------------------------------------------------------------------------------


class TableLine(str):
    """A line of a table, which must not be wrapped."""


def page_width() -> int:
    """Return the width of sentences: the width of the terminal, but at most `WIDEST`."""
    return min(columns() or PAGE_WIDTH, WIDEST)


def _table(*arguments: Any) -> list[str]:
    return list(map(TableLine, aligned(*arguments)))


def page(explanation: Mapping[str, Any]) -> str:
    """Format an explanation as text without control characters. Sentences are wrapped to the width of the terminal."""
    sections = [
        _score_lines(explanation),
        _part_lines(explanation),
        _change_lines(explanation),
        _event_lines(explanation["events"]),
        _trace_lines(explanation),
        _red_flag_lines(explanation["red_flags"]),
    ]
    lines = [line for section in sections if section for line in (*section, "")]
    room, title = page_width(), explanation["verdict"]["verdict"].capitalize()
    text = "\n".join(
        line if isinstance(line, TableLine) else "\n".join(wrapped(printable(line), room)) for line in lines[:-1]
    )
    return text.replace(f"\n{title} for ", f"\n{painted_verdict(title)} for ", 1)


def _score_lines(explanation: Mapping[str, Any]) -> list[str]:
    """Return the lines about the capacity score, its cause and what to do, and the permission."""
    score, on = explanation["score"], explanation["verdict"]
    about = permissions.words(explanation["permission"], on["threshold"], score["window_days"])
    factors = ", ".join(f"{name} {decimals.score(score[column])}" for name, column in FACTORS.items())
    changes = [f"{factor} {decimals.change(points)}" for factor, points in bridge(explanation["steady_difference"])]
    lines = [
        explanation["silence"],
        asking.label(score["agent_id_hash"], score["agent_name"]),
        f"as-of {as_of_time.text(score['as_of'])}, window of {plural(score['window_days'], 'day')}, "
        f"{plural(score['n_traces'], 'trace')}",
        explanation["agent_note"],
        "",
        f"Capacity score: {explanation['words']}",
        *_interval_lines(score, "capacity_score"),
        f"Factors: {factors}; weakest {score['weakest_factor']}. Status {score['score_status']}, confidence "
        f"{score['confidence']}.",
        explanation["cause"],
        *_remedy_lines(explanation["raised"], explanation["events"]),
        "",
        f"{on['verdict'].capitalize()} for {about}: {on['reason']}",
        f"Decision: {VERDICTS[on['verdict']][0]}.",
        None if on["probability"] is None else f'"Sure" is {SIMULATED}.',
        *_interval_lines(score, "capacity_score_steady"),
        changes and f"From the capacity score to the steady score: {', '.join(changes)}",
    ]
    if score["unmeasured_components"]:
        lines.append(f"Too little data to measure: {', '.join(map(named, score['unmeasured_components']))}")
    return [line for line in lines if line or line == ""]


def _interval_lines(score: Row, column: str) -> list[str]:
    """Return the line with the 95 % interval of a score, and for the capacity score the reason why it is wide."""
    low, high = score.get(f"{column}_low"), score.get(f"{column}_high")
    if low is None or high is None:
        return []
    of = " of the steady score" if column == "capacity_score_steady" else ""
    line = f"95 % interval{of}: {decimals.bound(low)} to {decimals.bound(high)}."
    if column == "capacity_score" and score["interval_driver"]:
        line += f" It is wide mainly because {widened_by(score['interval_driver'])}."
    return [line]


def _part_lines(explanation: Mapping[str, Any]) -> list[str]:
    loss_components = explanation["loss_components"]
    words = {**LOSS_WORDS, "i_chain": explanation["chain_cause"] or LOSS_WORDS["i_chain"]}
    if explanation["score"]["capacity_score"] is None:
        return []
    if not loss_components:
        return ["The loss components are not published yet: a run is writing them, or was stopped."]
    costly = [row for row in loss_components if row["points_lost"] > 0]
    rows: list[tuple[str, ...]] = [
        (
            words[row["loss_component"]],
            row["loss_component"],
            row["factor"],
            decimals.score(row["points_lost"]),
            "#" * max(1, round(BAR_WIDTH * row["points_lost"])),
            "" if row["n_traces"] is None else f"{row['n_traces']:,}",
        )
        for row in costly
    ]
    bars = f"of 1 ({BAR_WIDTH} #)"
    headings: tuple[str, ...] = ("loss component", "column", "factor", "points", bars, "traces")
    rest = [named(row["loss_component"]) for row in loss_components if row["points_lost"] == 0]
    table = _table(headings, rows, {"points", "traces"})
    if max(map(width, table)) > page_width():  # the table is too wide, so omit the bars
        headings, *rows = ((*row[:4], *row[5:]) for row in (headings, *rows))
        table = _table(headings, rows, {"points", "traces"})
    lines = ["Points lost, by loss component", *table]
    return [*lines, *([f"Nothing lost by: {', '.join(rest)}"] if rest else [])]


def _change_lines(explanation: Mapping[str, Any]) -> list[str]:
    lines, since = ["What changed"], explanation["since"]
    for row in (*explanation["comparisons"], *([since] if since else [])):
        what = f"Since {as_of_time.text(row['compared_as_of'])}, {COMPARED[row['compared_with']]}: "
        reason = row["not_comparable_because"]
        if reason:
            lines.append(f"  {what}not comparable, {NOT_COMPARABLE[reason]}.")
        else:
            before, now = decimals.score(row["score_before"]), decimals.score(row["score_now"])
            lines.append(f"  {what}{before} -> {now}, {decimals.change(row['change'])}")
        if row["loss_components"]:
            moved = sorted(row["loss_components"], key=lambda one: -abs(one["points"]))
            told = [
                f"{named(one['loss_component'], explanation['chain_cause'])} {decimals.change(one['points'])}"
                for one in moved
                if abs(one["points"]) >= 0.001
            ]
            moves = ", ".join(told) or "no loss component moved by 0.001 or more"
            lines.append(f"    by loss component: {moves}")
        elif row.get("factors"):
            told = [f"{name} {decimals.change(row['factors'][column])}" for name, column in FACTORS.items()]
            lines.append(f"    by factor: {', '.join(told)}")
            if not reason:
                lines.append("    (Changes by loss component: only since one window or one as-of before.)")
    return lines


def _event_lines(events: Mapping[str, Any]) -> list[str]:
    lines = ["Events in the window"]
    renames, episodes = events["renames"], events["episodes"]
    keys, links = events["unregistered_keys"], events["broken_links"]
    for row in renames[-MAX_LISTED:]:
        names = " -> ".join(_name(row[column], 30) for column in ("previous_agent_name", "agent_name"))
        lines.append(f"  {as_of_time.text(row['traced_at'])} renamed: {names}")
    if len(renames) > MAX_LISTED:
        lines.append(f"  ... and {plural(len(renames) - MAX_LISTED, 'rename')} before.")
    if (overrides := events["overrides"])["n_without_judgement"]:
        lines.append(f"  {_without_judgement(overrides)}, because a check of the conscience did not run.")
    if keys["n"]:
        lines.append(f"  {plural(keys['n'], 'trace')} with a key that was unknown, revoked or expired at their time,")
        lines.append(f"    {_range(keys)}")
    if links["n"]:
        lines.append(
            f"  {plural(links['n'], 'broken link')}: {plural(links['n_gaps'], 'gap')}, "
            f"{plural(links['n_rewinds'], 'rewind')}, "
            f"{links['n_duplicates']:,} repeated, {links['n_incomplete']:,} without number or hash,"
        )
        lines.append(f"    {_range(links)}")
    for row in episodes[-MAX_LISTED:]:
        end = "still open" if row["recovered_at"] is None else f"to {as_of_time.text(row['recovered_at'])}"
        mode = fitted(printable(row["failure_mode"]), 24)
        lines.append(f"  {as_of_time.text(row['detected_at'])} fragile ({mode}) {end}, {row['hours']:,.2f} hours")
    if len(episodes) > MAX_LISTED:
        lines.append(f"  ... and {len(episodes) - MAX_LISTED:,} fragile episodes before.")
    return lines if len(lines) > 1 else [*lines, "  None."]


def _trace_lines(explanation: Mapping[str, Any]) -> list[str]:
    traces, n = explanation["traces"], explanation["n_costly_traces"]
    if not traces:
        return ["No single trace lowered the score."]
    reasons = [", ".join(described(row, loss_component) for loss_component in row["loss_components"]) for row in traces]
    reasons_width = max(map(width, (REASONS, *reasons)))
    room = max(page_width(), NARROWEST_TABLE) - BESIDE_TRACE_ID - reasons_width
    id_width = max(MIN_TRACE_ID_WIDTH, room)
    rows = [
        (
            "-" if row["points"] is None else decimals.cut(row["points"], 4),
            as_of_time.text(row["traced_at"]),
            _name(row["trace_id"], id_width),
            reason,
        )
        for row, reason in zip(traces, reasons, strict=True)
    ]
    table = _table(("points", "time", "trace", REASONS), rows, {"points"})
    if explanation["score"]["capacity_score"] is None:
        return [
            f"Traces that lower the largest number of loss components, {len(rows)} of {n:,}; newest first where equal",
            *table,
        ]
    return [f"Traces that cost most, {len(rows)} of {n:,}; newest first where equal", *table, RULE]


def _red_flag_lines(red_flags: Sequence[Row]) -> list[str]:
    lines = ["Red flags of selective reporting (reasons to look)"]
    for row in red_flags:
        of = f" ({row['field']})" if row["field"] else ""
        lines.append(f"  {row['red_flag']}{of}: {row['message']}")
    return lines if red_flags else [*lines, "  None."]


def _without_judgement(overrides: Row) -> str:
    """Return for example "12 of 15 overrides had no judgement"."""
    return f"{overrides['n_without_judgement']:,} of {plural(overrides['n'], 'override')} had no judgement"


def _remedy_lines(raised: Sequence[Row], events: Mapping[str, Any]) -> list[str]:
    """For each raised alert and red flag, return since when it is raised, and the remedy. Below alerts that overrides
    without a judgement may have raised, name this innocent cause."""
    lines = []
    for one in {one["name"]: one for one in raised}.values():
        if one["name"] in KINDS:
            kind = KINDS[one["name"]]
            lines.append(f"About {kind.title} ({age(one['since'], one['until'])}): {kind.ask}")
            if kind.id in ("low_capacity", "falling") and events["overrides"]["n_without_judgement"]:
                lines.append(f"A possible innocent cause: {_without_judgement(events['overrides'])}.")
    return lines


def _name(name: str | None, columns: int) -> str:
    return fitted(printable(name), columns) if name else "-"


def _range(row: Row) -> str:
    return f"{as_of_time.text(row['first_at'])} to {as_of_time.text(row['last_at'])}"
