"""Read and verify batches in parallel processes. Return them in the order of the input, with few in memory at once."""

import os
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from multiprocessing import get_context, parent_process

from ciris_scoring.audit.documents import Batch, Document, read_document
from ciris_scoring.audit.signatures import Verifier
from ciris_scoring.errors import CirisError

_verifier: Verifier | None = None
"""Verifier of this worker process."""


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def read_all(
    chunks: Iterable[Sequence[Document]], keys: Mapping[str, bytes], n_processes: int
) -> Iterator[list[Batch]]:
    """Read and verify chunks of documents. The first chunk is read by this process, because starting processes takes
    time; if there are more, worker processes read them."""
    chunks, verifier = iter(chunks), Verifier(keys)
    for chunk in chunks if n_processes <= 1 else islice(chunks, 1):
        yield [read_document(document, verifier) for document in chunk]
    following = next(chunks, None)
    if following is None:
        return
    chunks = chain([following], chunks)
    with ProcessPoolExecutor(n_processes, get_context("spawn"), _start, (keys,)) as pool:
        waiting: deque[Future[list[Batch]]] = deque()
        try:
            for chunk in chunks:
                waiting.append(pool.submit(_read, chunk))
                if len(waiting) > 2 * n_processes:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            raise CirisError(
                "A process that verifies traces was killed, perhaps because memory ran out.",
                "Traces loaded so far are kept; run the same command again.",
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)


def _start(keys: Mapping[str, bytes]) -> None:
    global _verifier
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches the main process too, and that process ends the workers
    _verifier = Verifier(keys)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process if the main process is killed."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _read(chunk: Sequence[Document]) -> list[Batch]:
    assert _verifier is not None
    return [read_document(document, _verifier) for document in chunk]
