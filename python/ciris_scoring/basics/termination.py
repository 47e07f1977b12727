"""Handling of SIGTERM, the signal with which schedulers and containers end a process."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import NoReturn


@contextlib.contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Make SIGTERM raise KeyboardInterrupt in the block, like Ctrl-C, so that the block can clean up.

    By default Python ends at once. Queries then continue in the server, the log of runs has no end, and Python warns
    about semaphores of dbt and process pools. Only the main thread can handle signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt
