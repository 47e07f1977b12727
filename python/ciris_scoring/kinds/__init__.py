"""Kinds of alerts and of red flags, each from one file in ``kinds/alerts`` or ``kinds/flags``.

The file's name is the id of the kind. Everything that names a kind uses these files. The tables in ``docs/signs.md``
and ``docs/deciding.md`` are generated from the files (``tests/python/test_kinds.py``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Formatter
from typing import Any, Literal

import yaml

FOLDER = Path(__file__).parent
"""Folder of the files."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of alert or of red flag."""

    id: str
    title: str
    sentences: Mapping[str, str]
    """Messages by case. Braces contain the names of values."""
    raised_when: str
    thresholds: Mapping[str, Any]
    """Thresholds of a red flag (``red_flags/rules.py``), or units of the scoring parameters of an alert."""
    innocent_causes: str
    ask: str
    """Person to ask, and the question."""
    look_at: str
    review: Literal["always", "critical"] = "always"
    """Which alerts or red flags of this kind require a review before the score decides: all, or only critical
    alerts."""
    suspends: bool = False
    """Whether a critical alert of this kind suspends a permission."""
    evidence: str = ""
    """Component whose traces or deferrals are the evidence of the kind; empty if there is none."""
    counted: str = ""
    """The traces, pairs or periods that a red flag counts, in words."""
    counts: Mapping[str, str] = field(default_factory=dict)
    """Counts that a red flag compares: ``found``, ``of``, ``baseline_found``, ``baseline_of``."""
    published: str = ""
    """Unit of a red flag's published value: ``counts``, ``shares`` or ``days``."""

    @property
    def meaning(self) -> str:
        """Rule by which an alert or red flag of this kind is raised, in words."""
        return f"{self.counted}: {self.raised_when}" if self.counted else self.raised_when

    def sql_sentence(self, values: Mapping[str, Any], case: str = "raised") -> str:
        """Return SQL that writes the sentence of a case.

        :param values: SQL expressions by the names in the sentence. A name without an expression is a column.
        :param case: key of ``sentences``.
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
"""Kinds in ``fct_capacity_alerts``, by id."""
FLAGS: Mapping[str, Kind] = _read("flags")
"""Red flags of selective reporting, the column ``red_flag`` of ``fct_red_flags``, by id."""
KINDS: Mapping[str, Kind] = {**ALERTS, **FLAGS}
"""All kinds, by id."""
