"""Labels: which agents were good or bad, and when, from a CSV file."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ciris_scoring.basics import as_of
from ciris_scoring.basics.errors import InputError, shown

AGENT_COLUMNS = ("agent_id_hash", "name")
OTHER_COLUMNS = ("from", "to", "label")
LABELS = ("good", "bad")

_FORMAT = (
    "Write a CSV file with the header agent_id_hash,from,to,label (or name instead of agent_id_hash), ISO 8601 times, "
    "and good or bad."
)


@dataclass(frozen=True)
class Label:
    """One line of the file."""

    line: int
    agent: str
    """A name or a hash, as the file has it."""
    first: datetime
    last: datetime
    is_good: bool


@dataclass(frozen=True)
class Labels:
    """A file of labels that is in order."""

    by_name: bool
    labels: Sequence[Label]


def read_labels(path: Path) -> Labels:
    """Read a file of labels; empty lines are skipped.

    :raises InputError: it cannot be read, or a line is not as it must be; the message names the line.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"--labels {path} cannot be read: {error.strerror}.", _FORMAT) from error
    except UnicodeDecodeError as error:
        raise InputError(f"--labels {path} is not text in UTF-8.", _FORMAT) from error
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
    except csv.Error as error:
        raise InputError(f"--labels {path}, line {reader.line_num}: not CSV: {error}.", _FORMAT) from error
    if not rows:
        raise InputError(f"--labels {path} is empty.", _FORMAT)
    header = rows[0][1]
    agent_column = next((name for name in AGENT_COLUMNS if name in header), "")
    if sorted(header) != sorted((agent_column, *OTHER_COLUMNS)):
        raise InputError(
            f"--labels {path}, line {rows[0][0]}: the header is {shown(','.join(header))}.", _FORMAT
        )
    labels = [_label(path, line, dict(zip(header, row, strict=False)), len(row)) for line, row in rows[1:]]
    if not labels:
        raise InputError(f"--labels {path} has a header and no labels.", _FORMAT)
    return Labels(agent_column == "name", labels)


def _label(path: Path, line: int, row: Mapping[str, str], n_cells: int) -> Label:
    n_columns = 1 + len(OTHER_COLUMNS)
    place = f"--labels {path}, line {line}"
    if n_cells != n_columns:
        raise InputError(f"{place}: {n_cells} values instead of {n_columns}.", _FORMAT)
    if empty := [column for column, value in row.items() if not value]:
        raise InputError(f"{place}: {empty[0]} is empty.", _FORMAT)
    first = as_of.parse_time(row["from"], f"{place}: from")
    last = as_of.parse_time(row["to"], f"{place}: to")
    if last <= first:
        raise InputError(
            f"{place}: to, {as_of.text(last)}, is not later than from, {as_of.text(first)}.",
            "A span holds the as-ofs later than from, up to and including to.",
        )
    if row["label"] not in LABELS:
        raise InputError(f"{place}: label is {shown(row['label'])}; allowed are good and bad.", _FORMAT)
    agent = row.get("name") or row.get("agent_id_hash") or ""
    return Label(line, agent, first, last, row["label"] == "good")


def agents_of_labels(path: Path, labels: Labels, agents: Iterable[tuple[str, str | None]]) -> list[str]:
    """Find the agent of each label.

    :param path: of the file, for messages.
    :param agents: hash and present name of every agent.
    :returns: a hash for each label, in order.
    :raises InputError: an agent does not exist, a name has several, or two spans of an agent overlap.
    """
    hashes: dict[str, list[str]] = {}
    for agent_id_hash, name in agents:
        hashes.setdefault((name or "") if labels.by_name else agent_id_hash, []).append(agent_id_hash)
    kind = "name" if labels.by_name else "agent_id_hash"
    found = []
    for label in labels.labels:
        place = f"--labels {path}, line {label.line}"
        matches = hashes.get(label.agent, [])
        if not matches:
            raise InputError(
                f"{place}: no agent has the {kind} {shown(label.agent)}.",
                "The mart dim_agents lists the agents with hash and present name.",
            )
        if len(matches) > 1:
            raise InputError(
                f"{place}: {len(matches)} agents have the name {shown(label.agent)}.",
                "Name agents by agent_id_hash; dim_agents lists them.",
            )
        found.append(matches[0])
    _check_overlaps(path, labels.labels, found)
    return found


def _check_overlaps(path: Path, labels: Sequence[Label], hashes: Sequence[str]) -> None:
    """Refuse an as-of that two labels claim."""
    ordered = sorted(zip(hashes, labels, strict=True), key=lambda pair: (pair[0], pair[1].first))
    for (agent, earlier), (next_agent, later) in zip(ordered, ordered[1:], strict=False):
        if agent == next_agent and later.first < earlier.last:
            raise InputError(
                f"--labels {path}, line {later.line}: the span overlaps the one of the same agent in line "
                f"{earlier.line}.",
                "Write spans that do not overlap, so that each as-of has one label.",
            )
