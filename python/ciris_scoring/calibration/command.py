"""Calibration from beginning to end: read, compare, write."""

from datetime import datetime
from pathlib import Path

import numpy as np
import psycopg

from ciris_scoring.basics import as_of
from ciris_scoring.basics.connection import connect
from ciris_scoring.basics.dbt import read_relations
from ciris_scoring.basics.errors import CirisError, InputError
from ciris_scoring.basics.project import Project
from ciris_scoring.basics.relations import Relations
from ciris_scoring.calibration import published
from ciris_scoring.calibration.effects import Judgement, Setting, category_counts, drivers, judge, settings_of
from ciris_scoring.calibration.labels import Labels, agents_of_labels, read_labels
from ciris_scoring.calibration.parameters import covered_ranges, not_covered
from ciris_scoring.calibration.report import Findings, as_json, as_text
from ciris_scoring.reading.latest import published_range
from ciris_scoring.reading.marts import Marts, read_only


def calibrate(
    project: Project,
    given_as_of: str | None,
    window_days: int | None,
    labels_path: Path | None,
    *,
    json: bool,
) -> str:
    """Work out what the parameters do to the published fleet, and write it.

    :param given_as_of: the newest as-of up to this time is taken; None for the newest.
    :param window_days: None for the shortest window.
    :param labels_path: a file of labels, or None.
    :raises InputError: the time, the window or the labels are not acceptable.
    :raises CirisError: nothing is published, or no agent has a score.
    """
    until = None if given_as_of is None else as_of.parse_time(given_as_of, "--as-of")
    labels = None if labels_path is None else read_labels(labels_path)
    with connect(project) as connection, read_only(connection):
        findings = _findings(connection, read_relations(project), until, window_days, labels_path, labels)
    return as_json(findings) if json else as_text(findings)


def _findings(
    connection: psycopg.Connection,
    relations: Relations,
    until: datetime | None,
    window_days: int | None,
    labels_path: Path | None,
    labels: Labels | None,
) -> Findings:
    moment, window = _moment(connection, relations, until, window_days)
    scores = published.read_fleet(connection, relations, moment, window)
    n_rows = published.count_rows(connection, relations, moment, window)
    n_scored = int(scores.capacity_score.size)
    if not n_scored:
        raise CirisError(
            f"None of {n_rows} agents has a score with the parameters in force at {as_of.text(moment)}, window of "
            f"{window} days.",
            "Name another as-of or window with --as-of and --window-days.",
        )
    parameters = published.read_parameters(connection, relations)
    settings = settings_of(covered_ranges(parameters))
    judgement = None
    if labels is not None and labels_path is not None:
        judgement = _judgement(connection, relations, settings, window, labels_path, labels)
    return Findings(
        moment=moment,
        window_days=window,
        n_scored=n_scored,
        n_unscored=n_rows - n_scored,
        counts=category_counts(settings, scores, published.read_categories(connection, relations)),
        not_covered=not_covered(parameters),
        drivers=drivers(scores),
        judgement=judgement,
    )


def _moment(
    connection: psycopg.Connection, relations: Relations, until: datetime | None, window_days: int | None
) -> tuple[datetime, int]:
    """Find the as-of and the window to look at."""
    run_first = (
        "Score the fleet first: ciris-scoring run. The schema is the target's; name another with --target."
    )
    if missing := published.missing_marts(connection, relations):
        raise CirisError(f"There is no {relations.places[missing[0]]}.", run_first)
    newest = published_range(Marts(connection, relations), None, None)
    if newest is None:
        raise CirisError(f"No score is published in {relations.places['fct_capacity_scores']}.", run_first)
    found = published_range(Marts(connection, relations), window_days, until)
    if found is None:
        asked = [] if window_days is None else [f"a window of {window_days} days"]
        asked += [] if until is None else [f"an as-of up to {as_of.text(until)}"]
        raise InputError(
            f"No score is published for {' and '.join(asked)}.",
            f"The newest as-of is {as_of.text(newest[0])}; dim_scoring_windows lists the windows.",
        )
    return found


def _judgement(
    connection: psycopg.Connection,
    relations: Relations,
    settings: list[Setting],
    window: int,
    path: Path,
    labels: Labels,
) -> Judgement:
    hashes = agents_of_labels(path, labels, published.read_agents(connection, relations))
    scores = published.read_spans(connection, relations, labels.labels, hashes, window)
    is_good = np.array([label.is_good for label in labels.labels])
    _, agents = np.unique(hashes, return_inverse=True)
    found = judge(settings, scores, is_good, agents) if scores.span.size else None
    if found is None:
        present = set(scores.span.tolist())
        counts = {
            name: sum(label.is_good is good and i in present for i, label in enumerate(labels.labels))
            for name, good in (("good", True), ("bad", False))
        }
        raise InputError(
            f"--labels {path}: of {len(labels.labels)} spans {counts['good']} good and {counts['bad']} bad ones have a "
            f"score in the window of {window} days; at least one of each is needed.",
            "A span holds the as-ofs later than from, up to and including to; fct_capacity_scores has them.",
        )
    return found
