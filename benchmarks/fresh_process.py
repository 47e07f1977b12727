"""A function in a Python process of its own, as a scheduler starts it: its time, start included, and its memory."""

import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar, TypeVarTuple

from benchmarks.errors import BenchFailed

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


class Finished(NamedTuple, Generic[Result]):
    """What the function returned, and what it took."""

    result: Result
    seconds: float
    """Wall time, from before the process is started until the result is here."""
    peak_bytes: int | None
    """Largest resident memory of the process; None where the system does not tell."""


def in_fresh_process(function: Callable[[*Arguments], Result], *arguments: *Arguments) -> Finished[Result]:
    """Call a function of a module in a new process, and wait for it.

    :param function: one that can be imported; it, its arguments and its result are pickled.
    :raises BenchFailed: the process died.
    :raises Exception: what the function raised.
    """
    started = time.monotonic()
    spawning = multiprocessing.get_context("spawn")  # a fork would begin with the memory of this process
    receiver, sender = spawning.Pipe(duplex=False)
    process = spawning.Process(target=_call, args=(sender, function, arguments))
    process.start()
    sender.close()
    try:
        result, error, peak_bytes = receiver.recv()
        seconds = time.monotonic() - started
    except EOFError as ended:
        process.join()
        raise BenchFailed(
            f"A process of the benchmark ended with code {process.exitcode}.",
            "Its own words, if any, are above; code -9 often means that the machine was out of memory.",
        ) from ended
    except BaseException:  # we are stopped while it works
        process.terminate()
        raise
    finally:
        process.join()
    if error is not None:
        raise error
    return Finished(result, seconds, peak_bytes)


def _call(sender: Connection, function: Callable[[*Arguments], Result], arguments: tuple[*Arguments]) -> None:
    result, error = None, None
    try:
        result = function(*arguments)
    except Exception as raised:
        error = raised
    sender.send((result, error, _peak_bytes()))


def _peak_bytes() -> int | None:
    """Largest resident memory of this process, from Linux; getrusage would count the parent's too."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024
