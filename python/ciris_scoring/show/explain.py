"""The page of `ciris-scoring explain`: the document of an agent as text."""

from collections.abc import Sequence
from typing import Any

from ciris_scoring import numbers_as_text as decimals
from ciris_scoring.database import as_of as as_of_time
from ciris_scoring.database.connection import connect, snapshot
from ciris_scoring.database.dbt import read_relations
from ciris_scoring.database.project import Project
from ciris_scoring.database.terminal import aligned, columns, fitted, plural, printable, width, wrapped
from ciris_scoring.kinds import KINDS
from ciris_scoring.kinds.components import LOSS_WORDS
from ciris_scoring.marts import asking
from ciris_scoring.marts.evidence import RULES, described
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.reference import named, widened_by
from ciris_scoring.marts.score import bridge
from ciris_scoring.marts.verdict import SIMULATED, permission_words
from ciris_scoring.show import view
from ciris_scoring.show.tables import painted_verdict
from ciris_scoring.show.view import Document, factors_of
from ciris_scoring.show.words import NOT_COMPARABLE, VERDICTS, shown
from ciris_scoring.show.words import since as age

PAGE_WIDTH = 100
"""Width of the output in columns if the width of the terminal is unknown."""
NARROWEST_TABLE, WIDEST = 70, 140
BAR_WIDTH = 20
MAX_LISTED = 5
"""Number of most recent renames and episodes that are listed. Older ones are only counted."""
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


def read_explanation(
    project: Project,
    agent: str,
    as_of: str | None = None,
    window_days: int | None = None,
    since: str | None = None,
    threshold: float | None = None,
    permission: str | None = None,
) -> Document:
    """Read the document of an agent, with the events and traces behind its score.

    :param agent: hash, beginning of a hash, name or label.
    :param as_of: as-of of the score; None for the agent's newest.
    :param since: earlier as-of to compare with.
    :raises InputError: the agent or a score does not exist, or the agent is ambiguous.
    :raises DatabaseError: nothing is published, or the database returns an error.
    """
    moment = None if as_of is None else as_of_time.parse_time(as_of, "--as-of")
    earlier = None if since is None else as_of_time.parse_time(since, "--since")
    with connect(project) as connection, snapshot(connection):
        marts = Marts(connection, read_relations(project))
        marts.require()
        chosen = view.choose_agent(marts, agent, window_days, moment, threshold, permission)
        return view.explanation(marts, *chosen, earlier)


class TableLine(str):
    """A line of a table, which must not be wrapped."""


def page_width() -> int:
    """Return the width of sentences: the width of the terminal, but at most `WIDEST`."""
    return min(columns() or PAGE_WIDTH, WIDEST)


def _table(*arguments: Any) -> list[str]:
    return list(map(TableLine, aligned(*arguments)))


def page(document: Document) -> str:
    """Format the document of an agent as text without control characters. Sentences are wrapped to the width of the
    terminal."""
    sections = [
        _score_lines(document),
        _part_lines(document),
        _change_lines(document),
        _event_lines(document["window_events"]),
        _trace_lines(document),
        _red_flag_lines(document["red_flags"]),
    ]
    lines = [line for section in sections if section for line in (*section, "")]
    room, title = page_width(), document["verdict"].capitalize()
    text = "\n".join(
        line if isinstance(line, TableLine) else "\n".join(wrapped(printable(line), room)) for line in lines[:-1]
    )
    return text.replace(f"\n{title} for ", f"\n{painted_verdict(title)} for ", 1)


def _score_lines(document: Document) -> list[str]:
    """Return the lines about the capacity score, its cause and what to do, and the permission. Of a silent agent, the
    score is the newest one."""
    score = document["last_score"] or document
    about = permission_words(document["permission"], document["verdict_threshold"], score["window_days"])
    factors = ", ".join(f"{name} {shown(value)}" for name, value in factors_of(score).items())
    changes = [f"{factor} {decimals.change(points)}" for factor, points in bridge(score["steady_difference"])]
    lines = [
        document["silence"],
        asking.label(score["agent_id_hash"], score["agent_name"]),
        f"as-of {as_of_time.text(score['as_of'])}, window of {plural(score['window_days'], 'day')}, "
        f"{plural(score['n_traces'], 'trace')}",
        "",
        f"Capacity score: {score['words']}",
        *_interval_lines(score, "capacity_score"),
        f"Factors: {factors}; weakest {score['weakest_factor']}. Status {score['score_status']}, confidence "
        f"{score['confidence']}.",
        score["cause"],
        *_remedy_lines(document),
        "",
        f"{document['verdict'].capitalize()} for {about}: {document['verdict_reason']}",
        f"Decision: {VERDICTS[document['verdict']][0]}.",
        None if document["probability_at_threshold"] is None else f'"Sure" is {SIMULATED}.',
        *_interval_lines(score, "capacity_score_steady"),
        changes and f"From the capacity score to the steady score: {', '.join(changes)}",
    ]
    if score["unmeasured_components"]:
        lines.append(f"Too little data to measure: {', '.join(map(named, score['unmeasured_components']))}")
    return [line for line in lines if line or line == ""]


def _interval_lines(score: Document, column: str) -> list[str]:
    """Return the line with the 95 % interval of a score, and for the capacity score the reason why it is wide."""
    low, high = score[f"{column}_low"], score[f"{column}_high"]
    if low is None or high is None:
        return []
    of = " of the steady score" if column == "capacity_score_steady" else ""
    line = f"95 % interval{of}: {' to '.join(decimals.bounds(low, high))}."
    if column == "capacity_score" and score["interval_driver"] and score["category_certainty"] == "uncertain":
        line += f" It is wide mainly because {widened_by(score['interval_driver'])}."
    return [line]


def _part_lines(document: Document) -> list[str]:
    score, counts = document["last_score"] or document, document["n_traces_by_component"]
    words = {**LOSS_WORDS, "i_chain": score["chain_cause"] or LOSS_WORDS["i_chain"]}
    if score["capacity_score"] is None:
        return []
    if not document["loss_components"]:
        return ["The loss components are not published yet: a run is writing them, or was stopped."]
    rows: list[tuple[str, ...]] = [
        (
            words[row["loss_component"]],
            row["loss_component"],
            row["factor"],
            decimals.score(row["points_lost"]),
            "#" * max(1, round(BAR_WIDTH * row["points_lost"])),
            f"{counts[row['loss_component']]:,}" if row["loss_component"] in RULES else "",
        )
        for row in document["loss_components"]
        if row["points_lost"] > 0
    ]
    bars = f"of 1 ({BAR_WIDTH} #)"
    headings: tuple[str, ...] = ("loss component", "column", "factor", "points", bars, "traces")
    rest = [named(row["loss_component"]) for row in document["loss_components"] if row["points_lost"] == 0]
    table = _table(headings, rows, {"points", "traces"})
    if max(map(width, table)) > page_width():  # the table is too wide, so omit the bars
        headings, *rows = ((*row[:4], *row[5:]) for row in (headings, *rows))
        table = _table(headings, rows, {"points", "traces"})
    lines = ["Points lost, by loss component", *table]
    return [*lines, *([f"Nothing lost by: {', '.join(rest)}"] if rest else [])]


def _change_lines(document: Document) -> list[str]:
    lines, since = ["What changed"], document["since"]
    chain_cause = (document["last_score"] or document)["chain_cause"]
    for row in (*document["comparisons"], *([since] if since else [])):
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
                f"{named(one['loss_component'], chain_cause)} {decimals.change(one['points'])}"
                for one in moved
                if abs(one["points"]) >= 0.001
            ]
            moves = ", ".join(told) or "no loss component moved by 0.001 or more"
            lines.append(f"    by loss component: {moves}")
        elif row.get("factors"):
            told = [f"{name} {decimals.change(change)}" for name, change in row["factors"].items()]
            lines.append(f"    by factor: {', '.join(told)}")
            if not reason:
                lines.append("    (Changes by loss component: only since one window or one as-of before.)")
    return lines


def _event_lines(events: Document) -> list[str]:
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


def _trace_lines(document: Document) -> list[str]:
    traces, n = document["traces"], document["n_costly_traces"]
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
    if (document["last_score"] or document)["capacity_score"] is None:
        return [
            f"Traces that lower the largest number of loss components, {len(rows)} of {n:,}; newest first where equal",
            *table,
        ]
    return [f"Traces that cost most, {len(rows)} of {n:,}; newest first where equal", *table, RULE]


def _red_flag_lines(red_flags: Sequence[Document]) -> list[str]:
    lines = ["Red flags of selective reporting (reasons to look)"]
    for row in red_flags:
        of = f" ({row['field']})" if row["field"] else ""
        lines.append(f"  {row['red_flag']}{of}: {row['message']}")
    return lines if red_flags else [*lines, "  None."]


def _without_judgement(overrides: Document) -> str:
    """Return for example "12 of 15 overrides had no judgement"."""
    return f"{overrides['n_without_judgement']:,} of {plural(overrides['n'], 'override')} had no judgement"


def _remedy_lines(document: Document) -> list[str]:
    """For each raised alert and red flag, return since when it is raised, and the remedy. Below alerts that overrides
    without a judgement may have raised, name this innocent cause."""
    lines, overrides = [], document["window_events"]["overrides"]
    for one in {one["name"]: one for one in document["raised"]}.values():
        if one["name"] in KINDS:
            kind = KINDS[one["name"]]
            lines.append(f"About {kind.title} ({age(one['since'], one['until'])}): {kind.ask}")
            if kind.id in ("low_capacity", "falling") and overrides["n_without_judgement"]:
                lines.append(f"A possible innocent cause: {_without_judgement(overrides)}.")
    return lines


def _name(name: str | None, columns: int) -> str:
    return fitted(printable(name), columns) if name else "-"


def _range(row: Document) -> str:
    return f"{as_of_time.text(row['first_at'])} to {as_of_time.text(row['last_at'])}"
