"""Traces a second of `ciris-scoring load`, the database included: python tests/programs/load_speed.py [TRACES].

Traces as agents of 2.7 send them at the level generic, 8 kB each, ten to a batch, into a throw-away PostgreSQL with its
own settings.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
from pathlib import Path

import tests_path  # noqa: F401
from ciris_scoring.audit.load import load, report
from ciris_scoring.basics.project import load_project
from ciris_scoring.lab import embedded
from conftest import REPOSITORY
from signed_batches import Agent, batch

AGENTS, CALLS, PER_BATCH = 20, 13, 10
CALL = {
    "attempt_count": 1, "attempt_index": 0, "completion_bytes": 2048, "completion_tokens": 1024, "cost_usd": 0.000331,
    "duration_ms": 59.4, "handler_name": "evaluator", "model": "a model", "prompt_bytes": 81920, "prompt_tokens": 10200,
    "parent_attempt_index": 0, "parent_event_type": "DMA_RESULTS", "response_model": "Result", "retry_count": 0,
    "service_name": "service", "status": "ok",
}  # fmt: skip


def write_batches(folder: Path, n: int) -> None:
    agents = [Agent(seed=seed) for seed in range(AGENTS)]
    for number in range(n // PER_BATCH):
        agent = agents[number % AGENTS]
        traces = []
        for _ in range(PER_BATCH):
            trace = agent.trace()
            calls = [
                {
                    "component_type": "rationale",
                    "event_type": "LLM_CALL",
                    "timestamp": trace["started_at"],
                    "data": CALL,
                }
                for _ in range(CALLS)
            ]
            trace["components"][2:2] = calls
            traces.append(agent.sign(trace))
        (folder / f"{number:06}.json").write_text(json.dumps(batch(traces)))
    (folder / "keys.json").write_text(
        json.dumps({key: text for agent in agents for key, text in agent.keys.items()})
    )


def main(n: int) -> None:
    with (
        tempfile.TemporaryDirectory() as work,
        embedded.throw_away(default_settings=True) as server,
    ):
        folder = Path(work, "batches")
        folder.mkdir()
        write_batches(folder, n)
        size = sum(path.stat().st_size for path in folder.iterdir())
        print(f"{n:,} traces, {size / n / 1000:.1f} kB each")
        embedded.write_profile(Path(work), server)
        project = load_project(REPOSITORY, Path(work))
        for title in ("The first time:", "Again:"):
            print(title, *report(load(project, [folder], [folder / "keys.json"])), sep="\n")
            used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
            seconds = [one.ru_utime + one.ru_stime for one in used]
            print(
                f"Processor time so far: {seconds[0]:.1f} s here, {seconds[1]:.1f} s in processes that verify\n"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
