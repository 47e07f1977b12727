"""How soon a person sees the page of a large fleet: 500 agents on a server of this machine, in a headless Chromium."""

import shutil
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import click
import psycopg

from benchmarks.api.command import served
from benchmarks.errors import BenchFailed
from benchmarks.jobs import place, score_at
from benchmarks.verdicts import Limit, announce
from ciris_scoring.basics.project import load_project
from ciris_scoring.basics.terminal import aligned
from ciris_scoring.trial import embedded
from ciris_scoring.trial.simulation import simulate_fleet
from ciris_scoring.trial.simulation.load import load_fleet

REPOSITORY = Path(__file__).parents[1]
END = datetime(2026, 6, 15, tzinfo=UTC)
AGENTS, DAYS, TRACES_PER_DAY = 500, 70, 6.0
VISITS = 5
PAINTED = Limit(1.0, "s")
"""Target: from the click to the largest thing painted, the server's part included."""
PAINTS = """
() => new Promise((done) => {
  const entries = [];
  new PerformanceObserver((list) => entries.push(...list.getEntries()))
    .observe({type: "largest-contentful-paint", buffered: true});
  setTimeout(() => {
    const [visit] = performance.getEntriesByType("navigation");
    const [first] = performance.getEntriesByName("first-contentful-paint");
    const largest = Math.max(...entries.map((entry) => entry.startTime));
    done([visit.responseEnd, first.startTime, largest, visit.loadEventEnd]);
  }, 500);
})
"""
HEADINGS = (
    "page of the fleet, seconds since the click",
    "answered",
    "first paint",
    "largest paint",
    "loaded",
)


def run_pages(seed: int, progress: Callable[[str], None]) -> bool:
    """Simulate the fleet, score and serve it, look at its page, and print.

    :returns: whether it is painted in time.
    :raises BenchFailed: there is no Chromium, or the server does not answer.
    """
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise BenchFailed("There is no Chromium.", "Install one (Debian: apt-get install chromium).")
    with embedded.throw_away() as server, tempfile.TemporaryDirectory() as folder:
        with psycopg.connect(server.conninfo(), autocommit=True) as connection:
            load_fleet(connection, simulate_fleet(AGENTS, DAYS, TRACES_PER_DAY, seed, END))
        embedded.write_profile(Path(folder), server)
        score_at(place(load_project(REPOSITORY, Path(folder))), END)
        progress(f"{AGENTS} agents are scored")
        command = [
            *(sys.executable, "-m", "ciris_scoring.cli", "serve", "--project-dir", str(REPOSITORY)),
            *("--profiles-dir", folder, "--no-auth", "--port"),
        ]
        with served(command, "/healthz") as serving:
            begun = time.perf_counter()
            with urllib.request.urlopen(serving.url + "/") as answer:  # nothing is kept yet
                n_bytes = len(answer.read())
            made = time.perf_counter() - begun
            visits = [_visit(chromium, serving.url) for _ in range(VISITS)]
    medians = [median(of) / 1000 for of in zip(*visits, strict=True)]
    row = (f"median of {VISITS} visits", *(f"{seconds:.2f}" for seconds in medians))
    click.echo("\n".join(aligned(HEADINGS, [row], set(HEADINGS[1:]))))
    click.echo(
        f"\n{n_bytes:,} bytes, {n_bytes / AGENTS:,.0f} an agent; made in {made:.2f} s when nothing was kept"
    )
    return announce([PAINTED.judge("largest paint, with a page made anew", medians[2] + made)])


def _visit(chromium: str, url: str) -> list[float]:
    """Milliseconds from the click to the answer, the first and the largest paint, and the end of loading."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page: Any = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(url + "/")
        found: list[float] = page.evaluate(PAINTS)
        browser.close()
    return found
