"""SIGTERM, by which schedulers and containers end a process."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import NoReturn


@contextlib.contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Have SIGTERM interrupt the block, as Ctrl-C does, so that what it began is cleaned up.

    By default Python ends at once: queries go on in the server, the log of runs is not closed, and Python warns of
    semaphores that dbt and process pools leave behind. Only the main thread can handle signals.
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
