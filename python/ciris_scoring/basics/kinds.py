"""The kinds of alerts and of red flags: one file in ``kinds`` for each, which everything that names a kind reads.

The name of the file is the id of the kind. The tables in ``docs/signs.md`` and ``docs/deciding.md`` are made of the
files (``tests/python/test_kinds.py``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Formatter
from typing import Any, Literal

import yaml

FOLDER = Path(__file__).parents[1] / "kinds"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of alert or of red flag."""

    id: str
    title: str
    """The kind in a few words."""
    severities: Sequence[str]
    """critical or warning for alerts; sign for red flags."""
    review: Literal["always", "critical"]
    """Which severities of it ask for a look before the score decides."""
    sentences: Mapping[str, str]
    """Messages by case, with the names of their values in braces."""
    raised_when: str
    thresholds: Mapping[str, Any]
    """Thresholds of a red flag (``Rule`` of ``statistics/signs.py``); units of an alert's scoring parameters."""
    source: str
    """Section that has the rule."""
    innocent_causes: str
    ask: str
    """Whom to ask for what."""
    look_at: str
    """What to look at."""
    counted: str = ""
    """What a red flag counts."""
    counts: Mapping[str, str] = field(default_factory=dict)
    """Columns of ``int_windows`` that a red flag compares: found of how many, and the same of its own baseline."""
    published: str = ""
    """Unit of a red flag's published value (``Rule.unit``)."""

    @property
    def meaning(self) -> str:
        """What is counted, and when the kind is raised."""
        return f"{self.counted}: {self.raised_when}" if self.counted else self.raised_when

    def sql_sentence(self, values: Mapping[str, Any], case: str = "raised") -> str:
        """Return SQL for a message.

        :param values: SQL expressions by the names in the sentence; a name without one is a column.
        """
        parts = list(Formatter().parse(self.sentences[case]))
        text = "".join(said.replace("%", "%%") + ("" if name is None else "%s") for said, name, *_ in parts)
        names = [name for _, name, *_ in parts if name is not None]
        quoted = "'" + text.replace("'", "''") + "'"
        return f"format({', '.join([quoted, *(str(values.get(name, name)) for name in names)])})"


def _read(folder: str) -> dict[str, Kind]:
    kinds = {}
    for path in sorted((FOLDER / folder).glob("*.yml")):
        words = yaml.safe_load(path.read_text(encoding="utf-8"))
        thresholds = words["thresholds"]
        values = dict(thresholds)
        if "excess" in thresholds:
            values["points"] = round(100 * thresholds["excess"])
        if "chance" in thresholds:
            values["odds"] = round(1 / thresholds["chance"])
        for name in ("counted", "raised_when"):
            words[name] = words.get(name, "").format(**values)
        kinds[path.stem] = Kind(path.stem, **words)
    return kinds


ALERTS: Mapping[str, Kind] = _read("alerts")
"""Kinds of ``fct_capacity_alerts``."""
FLAGS: Mapping[str, Kind] = _read("flags")
"""Red flags of selective reporting, the signs of ``fct_record_signs``."""
KINDS: Mapping[str, Kind] = {**ALERTS, **FLAGS}
