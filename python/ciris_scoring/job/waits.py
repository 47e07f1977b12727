"""Report what a run or a load waits for: locks of other sessions, or a standby that must confirm a commit."""

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg

from ciris_scoring.basics.connection import connect
from ciris_scoring.basics.errors import CirisError, one_line
from ciris_scoring.basics.project import Project
from ciris_scoring.basics.sessions import open_sessions
from ciris_scoring.basics.terminal import printable, progress

LOOK_SECONDS = 0.5
"""Interval in seconds at which waiting sessions are read."""
SAY_SECONDS = 5.0
"""Seconds of waiting after which the run reports it. Short waits are normal."""
PAUSE_SECONDS = 3.0
"""Longest time in seconds between two observations of one wait. A statement with a short lock timeout does not wait all
the time, because it stops and is repeated."""

# The waiting session, the lock or event that it waits for, and the session that holds the lock.
WAITS = """
select
    waiting.pid,
    coalesce(locks.relation::regclass::text, 'the ' || locks.locktype || ' lock', ''),
    waiting.wait_event,
    blocking.pid,
    blocking.usename,
    blocking.application_name,
    blocking.state,
    to_char(blocking.xact_start at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'),
    blocking.query
from pg_stat_activity as waiting
left join pg_locks as locks on waiting.pid = locks.pid and not locks.granted
left join lateral unnest(pg_blocking_pids(waiting.pid)) as blockers (pid) on true
left join pg_stat_activity as blocking on blockers.pid = blocking.pid
where
    waiting.pid = any(%s)
    and (waiting.wait_event_type = 'Lock' or waiting.wait_event = 'SyncRep')
    and blockers.pid <> all(%s) is not false
"""


@dataclass
class _Wait:
    began: float
    seen: float
    text: str
    is_said: bool = False


@contextlib.contextmanager
def waits_are_said(project: Project) -> Iterator[None]:
    """Report waits of the run's sessions during the block, on a separate connection that opens after some seconds.

    The run's own connection stays free for the lock. Short runs do not open the separate connection.
    """
    ended = threading.Event()
    thread = threading.Thread(target=_watch, args=(project, ended), name="ciris-scoring-waits", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _watch(project: Project, ended: threading.Event) -> None:
    """Look for waiting sessions of the run until the run has ended. If no connection is possible, waits are not
    reported."""
    if ended.wait(SAY_SECONDS / 2):
        return
    waits: dict[int, _Wait] = {}
    with contextlib.suppress(CirisError), connect(project) as connection:
        while not ended.wait(LOOK_SECONDS):
            _look(connection, waits)


def _look(connection: psycopg.Connection, waits: dict[int, _Wait]) -> None:
    now = time.monotonic()
    ours = open_sessions()
    for pid, *what in connection.execute(WAITS, [ours, ours]).fetchall():
        wait = waits.get(pid)
        if wait is None or now - wait.seen > PAUSE_SECONDS:
            wait = waits[pid] = _Wait(now, now, "")
        wait.seen = now
        text = _text(what)
        if text != wait.text:
            wait.text, wait.is_said = text, False
        if not wait.is_said and now - wait.began >= SAY_SECONDS:
            wait.is_said = True
            progress(printable(f"  Waiting for {now - wait.began:.0f} s: {text}"))


def _text(row: list[Any]) -> str:
    what, event, pid, user, application, state, since, query = row
    if event == "SyncRep":
        return "the server waits until a synchronous standby confirms a commit (synchronous_standby_names)."
    if pid is None:
        return f"{what} is locked by a transaction that is prepared or hidden (see pg_prepared_xacts and pg_locks)."
    return (
        f"{what} is locked by database process {pid} of user {user or 'unknown'} (application "
        f"{application or 'unknown'}), state {state or 'unknown'}, transaction open since {since or 'unknown'}, "
        f"last query: {one_line(query or 'unknown')[:200]}"
    )
