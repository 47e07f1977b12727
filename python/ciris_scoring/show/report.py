"""Create the report as one self-contained HTML file or as JSON, and write it atomically."""

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import psycopg

from ciris_scoring.database import as_of as as_of_time
from ciris_scoring.database.connection import connect
from ciris_scoring.database.dbt import read_relations
from ciris_scoring.database.project import Project
from ciris_scoring.database.relations import Relations
from ciris_scoring.errors import CirisError, InputError
from ciris_scoring.marts import agent, asking, fleet, history
from ciris_scoring.marts.alerts import alerts
from ciris_scoring.marts.marts import Marts, grouped, read_only
from ciris_scoring.marts.parameters import categories, parameters, windows
from ciris_scoring.marts.permissions import Permission, permissions, verdicts
from ciris_scoring.marts.verdict import verdict
from ciris_scoring.show.pages.pages import MAX_AGENTS, report_page

DEFAULT_FILE = Path("ciris-report.html")


def report(project: Project, window_days: int | None, *, json: bool) -> str:
    """Create a report of the newest published scores. The default window is the window of the first permission, or else
    the shortest one.

    :raises InputError: no score is published for the window.
    """
    with connect(project) as connection:
        return read_report(connection, read_relations(project), window_days, json=json)


def read_report(connection: psycopg.Connection, relations: Relations, window_days: int | None, *, json: bool) -> str:
    """Create the report over an open connection. The parameters are those of `report`."""
    with read_only(connection):
        marts = Marts(connection, relations)
        marts.require()
        if json:
            return as_json(marts, window_days)
        return report_page(connection, relations, window_days=window_days)


def as_json(marts: Marts, window_days: int | None) -> str:
    """Create the report as a JSON object with full precision. docs/serving.md describes its structure."""
    asking.window([one.window_days for one in windows(marts)], window_days)
    chosen = asking.permission(marts, None, None, window_days)
    window, as_of = chosen.window_days, asking.fleet_as_of(marts, chosen.window_days, None)
    document: dict[str, Any] = {
        "as_of": as_of,
        "window_days": window,
        "fleet": None,
        "agents": [],
        "agents_not_shown": 0,
        "alerts": [asdict(alert) for alert in alerts(marts, as_of, window)] if as_of else [],
        "categories": [asdict(category) for category in categories(marts)],
        "parameters": [asdict(parameter) for parameter in parameters(marts)],
        "windows": [asdict(published) for published in windows(marts)],
    }
    if as_of is not None:
        document |= _fleet(marts, as_of, window, permissions(marts), chosen.threshold)
    return json.dumps(document, default=_text, allow_nan=False)


def _fleet(
    marts: Marts, as_of: datetime, window_days: int, named: list[Permission], threshold: float | None
) -> dict[str, Any]:
    capacity = fleet.capacity(marts, as_of, window_days)
    scores = fleet.scores(marts, as_of, window_days, limit=MAX_AGENTS)
    hashes = [score.agent_id_hash for score in scores]
    key = (marts, hashes, as_of, window_days)
    behind: dict[str, Mapping[str, Sequence[Any]]] = {
        "loss_components": grouped(agent.attribution(*key)),
        "changes": grouped(agent.changes(*key)),
        "components": grouped(agent.components(*key)),
        "history": history.histories(marts, hashes, window_days, last=as_of),
    }
    by_permission = verdicts(named, {one.window_days: fleet.scores(marts, as_of, one.window_days) for one in named})
    return {
        "fleet": capacity and asdict(capacity),
        "agents": [
            {
                **asdict(score),
                "verdict": asdict(verdict(score, threshold)),
                "steady_difference": score.steady_difference,
                "permissions": [{**asdict(one), **asdict(on)} for one, on in by_permission[score.agent_id_hash]],
                **{name: _rows(found[score.agent_id_hash]) for name, found in behind.items()},
            }
            for score in scores
        ],
        "agents_not_shown": capacity.n_agents - len(scores) if capacity else 0,
    }


def _rows(found: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the rows of one agent as dictionaries without the agent's hash, because the object that contains them has
    it."""
    return [{name: value for name, value in asdict(row).items() if name != "agent_id_hash"} for row in found]


def _text(value: object) -> str:
    return as_of_time.text(value.astimezone(UTC)) if isinstance(value, datetime) else str(value)


def check_place(file: Path) -> None:
    """Check that a report can be written to a file, before it is created.

    :raises InputError: the file cannot be written.
    """
    if file.is_dir():
        _refuse(file, "it is a folder", "Name a file.")
    if file.is_block_device():
        _refuse(file, "it is a disk", "Name a file.")
    if _is_special(file):
        if not os.access(file, os.W_OK):
            _refuse(file, "it is not writable")
        return
    folder = _real(file).parent
    if not folder.is_dir():
        _refuse(file, f"there is no folder {folder}", "Create the folder first.")
    if not os.access(folder, os.W_OK | os.X_OK):
        _refuse(file, f"{folder} is not writable")


def _refuse(file: Path, reason: str, remedy: str = "Name another file.") -> NoReturn:
    raise InputError(f"The report cannot be written to {file}: {reason}.", remedy)


def write(text: str, file: Path) -> None:
    """Write a report. A regular file is replaced atomically, so that readers never see a partial report.

    If the file is a symbolic link, its target is replaced. A device, a pipe or an open file such as /dev/stdout is
    written to.

    :raises CirisError: the file cannot be written. An existing file is unchanged.
    """
    temporary = None
    try:
        if _is_special(file):
            with file.open("a", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
            return
        file = _real(file)
        descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name[:40]}.")
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        mode = file.stat().st_mode & 0o777 if file.exists() else 0o666 & ~_umask()
        os.chmod(temporary, mode)
        os.replace(temporary, file)
    except OSError as error:
        raise CirisError(
            f"The report cannot be written to {file}: {error.strerror}.", "Make room, or name another file."
        ) from error
    finally:
        if temporary is not None:
            with suppress(FileNotFoundError):
                os.unlink(temporary)


def _real(file: Path) -> Path:
    """Return the target of a symbolic link, or the file itself."""
    real = Path(os.path.realpath(file)) if file.is_symlink() else file
    if real.is_symlink():
        _refuse(file, "its symbolic links lead back to themselves")
    return real


def _is_special(file: Path) -> bool:
    """Return whether a file cannot be replaced: a device, a pipe, or an open file such as /dev/stdout."""
    folder = Path(os.path.realpath(file.parent))
    is_open_file = file.is_symlink() and (folder == Path("/dev") or folder.is_relative_to("/proc"))
    return file.exists() and (is_open_file or not file.is_file())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
