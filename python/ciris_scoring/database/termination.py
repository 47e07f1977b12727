"""Handling of Ctrl-C, and of SIGTERM, with which schedulers and containers end a process."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import NoReturn

_interrupted = threading.Event()


def is_interrupted() -> bool:
    """Return whether the command is being interrupted. What fails from then on is a consequence, and is not shown."""
    return _interrupted.is_set()


@contextlib.contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Make SIGTERM raise KeyboardInterrupt in the block, like Ctrl-C, so that the block can clean up.

    By default Python ends at once. Queries then continue in the server, the log of runs has no end, and Python warns
    about semaphores of dbt and process pools. Only the main thread can handle signals.
    """
    _interrupted.clear()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(*_: object) -> NoReturn:
    _interrupted.set()
    raise KeyboardInterrupt
