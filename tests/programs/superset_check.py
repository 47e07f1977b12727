"""Import the Superset dashboard into a real Superset, and hold what its charts show against SQL (`make bi`).

Superset stands in an environment of its own, .bi/venv, which `make bi` makes. Here it gets a throw-away PostgreSQL with
the scored sample, which it reads under a role that may read the marts and nothing else; the bundle is imported twice;
its REST API is asked for the data of every chart, with the dashboard's window; and a headless Chromium takes a picture
of the dashboard into .bi/.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import psycopg
import yaml
from psycopg import sql

import tests_path  # noqa: F401
from ciris_scoring.lab import embedded
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.lab.simulation.sample import load_sample, sample_info
from ciris_scoring.reading.words import PART_WORDS, named
from conftest import CHROMIUM, FLAGS, REPOSITORY, Database, fresh_database
from pipeline import score

HOME = REPOSITORY / ".bi"
PICTURE = HOME / "ciris_capacity.png"
BUNDLE = REPOSITORY / "dashboards/superset/ciris_capacity"
READER = "bi"
USER, PASSWORD = "admin", "admin"
WINDOW_DAYS = 7
TOLERANCE = 1e-12
CONFIG = """
import os
SECRET_KEY = os.environ["SUPERSET_KEY"]
SQLALCHEMY_DATABASE_URI = "sqlite:///" + os.environ["SUPERSET_HOME"] + "/superset.db"
WTF_CSRF_ENABLED = False
TALISMAN_ENABLED = False
RATELIMIT_ENABLED = False
AUTH_RATE_LIMITED = False
LOG_LEVEL = "WARNING"
"""
NEWEST = f"as_of = (select max(as_of) from {SCHEMA}.fct_capacity_scores) and window_days = {WINDOW_DAYS}"
SCORES = f"{SCHEMA}.fct_capacity_scores"
NAMED_PART = " ".join(["case part", *(f"when '{part}' then '{named(part)}'" for part in PART_WORDS), "end"])
FACTORS = "c_score, i_int_score, r_score, i_inc_score, s_score"
BY_SQL = {
    "Agents": f"select count(*) from {SCORES} where {NEWEST}",
    "Mean score": f"select avg(capacity_score) from {SCORES} where {NEWEST}",
    "Lowest": f"select min(capacity_score) from {SCORES} where {NEWEST}",
    "Raised": f"select count(*) from {SCHEMA}.fct_capacity_alerts where {NEWEST}",
    "Agents by category": f"select category, count(*) from {SCORES} where {NEWEST} group by category",
    "Capacity of the fleet": "select as_of, mean_capacity_score, median_capacity_score, min_capacity_score,"
    f" median_capacity_score_steady from {SCHEMA}.fct_fleet_capacity where window_days = {WINDOW_DAYS}",
    "Capacity of each agent": "select scores.as_of, agents.agent_label, scores.capacity_score"
    f" from {SCORES} as scores join {SCHEMA}.dim_agents as agents using (agent_id_hash)"
    f" where window_days = {WINDOW_DAYS}",
    "Agents at the newest as-of": "select agent_label, capacity_score, capacity_score_low, capacity_score_high,"
    " capacity_score_steady, capacity_score_steady_low, capacity_score_steady_high, category_steady_certainty,"
    f" {FACTORS}, category, category_certainty, score_status, weakest_factor, n_traces from {SCORES} where {NEWEST}",
    "What the scores lost, by part": f"select {NAMED_PART}, sum(points_lost) from {SCHEMA}.fct_score_attribution"
    f" where {NEWEST} group by part",
    "Alerts": "select severity, agent_label, kind, value, threshold, message"
    f" from {SCHEMA}.fct_capacity_alerts where {NEWEST}",
    "Repairs and refusals": f"select issue, sum(n) from {SCHEMA}.fct_data_quality where issue !~ '^ingestion'"
    " group by issue",
    "Runs": "select ended_at, outcome, command, as_of, n_scores, n_late_traces, seconds, message, remedy"
    f" from {SCHEMA}.fct_scoring_runs",
}
"""What each chart has to show, in the order of its columns."""


class Superset:
    """A Superset in a folder, with its metadata in SQLite."""

    def __init__(self, folder: Path):
        (folder / "superset_config.py").write_text(CONFIG)
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.environment = {
            **os.environ,
            **{"SUPERSET_HOME": str(folder), "SUPERSET_KEY": os.urandom(24).hex()},
            **{
                "SUPERSET_CONFIG_PATH": str(folder / "superset_config.py"),
                "FLASK_APP": "superset.app:create_app()",
            },
        }
        self._log = folder / "superset.log"
        self._token = ""

    def command(self, *arguments: str) -> None:
        """Run a command of Superset; what it says goes into the log."""
        with self._log.open("a") as log:
            done = subprocess.run(
                [HOME / "venv/bin/superset", *arguments],
                env=self.environment,
                stdout=log,
                stderr=log,
                check=False,
            )
        if done.returncode != 0:
            sys.exit(f"superset {' '.join(arguments)} failed:\n{self._log.read_text()[-3000:]}")

    @contextmanager
    def running(self) -> Iterator[None]:
        """Serve, until the block ends."""
        with self._log.open("a") as log:
            serving = subprocess.Popen(
                [HOME / "venv/bin/superset", "run", "--port", str(self.port), "--with-threads"],
                env=self.environment,
                stdout=log,
                stderr=log,
            )
        try:
            self._wait()
            login = {"username": USER, "password": PASSWORD, "provider": "db", "refresh": False}
            self._token = self.ask("security/login", login)["access_token"]
            yield
        finally:
            serving.terminate()
            serving.wait(30)

    def _wait(self) -> None:
        for _ in range(240):
            try:
                with urlopen(f"{self.url}/health", timeout=5):
                    return
            except (URLError, OSError):
                time.sleep(0.5)
        sys.exit(f"Superset does not answer:\n{self._log.read_text()[-3000:]}")

    def ask(self, path: str, document: Any = None) -> Any:
        """Ask the REST API; with a document, post it."""
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        body = None if document is None else json.dumps(document).encode()
        with urlopen(Request(f"{self.url}/api/v1/{path}", body, headers), timeout=60) as answer:
            return json.load(answer)

    def charts(self) -> dict[str, int]:
        """Numbers of the charts by their names."""
        found = self.ask("chart/?q=(page_size:100)")["result"]
        assert len({chart["slice_name"] for chart in found}) == len(found), "a chart was imported twice"
        return {chart["slice_name"]: chart["id"] for chart in found}


def data(superset: Superset, chart: int, excluded: bool) -> list[list[Any]]:
    """Rows of a chart as Superset reads them, with the window that the dashboard chooses."""
    context = json.loads(superset.ask(f"chart/{chart}")["result"]["query_context"])
    if not excluded:
        for query in context["queries"]:
            query["filters"].append({"col": "window_days", "op": "IN", "val": [WINDOW_DAYS]})
    [answer] = superset.ask("chart/data", context)["result"]
    assert answer["error"] is None and not answer["rejected_filters"], answer
    return [[row[name] for name in answer["colnames"]] for row in answer["data"]]


def differences(found: list[list[Any]], expected: list[tuple[Any, ...]]) -> list[str]:
    """What differs between two lists of rows in any order; a time is its milliseconds in Superset."""

    def plain(value: Any) -> Any:
        if hasattr(value, "timestamp"):
            return value.timestamp() * 1000
        return float(value) if not isinstance(value, str | None) else value

    def key(row: list[Any]) -> str:
        return repr([round(value, 6) if isinstance(value, float) else value for value in row])

    left = sorted(([plain(value) for value in row] for row in found), key=key)
    right = sorted(([plain(value) for value in row] for row in expected), key=key)
    if len(left) != len(right):
        return [f"{len(left)} rows, not {len(right)}"]
    return [
        f"{a}, not {b}"
        for one, other in zip(left, right, strict=True)
        for a, b in zip(one, other, strict=True)
        if a != b
        and not (isinstance(a, float) and isinstance(b, float) and abs(a - b) <= TOLERANCE * max(1, abs(b)))
    ]


def take_picture(superset: Superset) -> list[str]:
    """Photograph the dashboard; return what charts complain of."""
    from playwright.sync_api import sync_playwright

    if CHROMIUM is None:
        sys.exit("No Chromium is installed on the system (Debian: apt-get install chromium).")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1500, "height": 1900})
        page.goto(f"{superset.url}/login/")
        page.fill("#username", USER)
        page.fill("#password", PASSWORD)
        page.keyboard.press("Enter")
        page.wait_for_url("**/welcome/**", timeout=60_000)
        page.goto(f"{superset.url}/superset/dashboard/ciris-capacity/?standalone=1")
        page.wait_for_selector("[data-test=chart-container]", timeout=60_000)
        page.wait_for_timeout(3_000)
        page.wait_for_function("!document.querySelector('[data-test=loading-indicator]')", timeout=120_000)
        page.wait_for_timeout(3_000)
        errors = page.locator("[role=alert]").all_inner_texts()
        page.screenshot(path=PICTURE, full_page=True)
        browser.close()
    return [text for text in errors if text.strip()]


@contextmanager
def scored() -> Iterator[tuple[Database, psycopg.Connection]]:
    """A database with the scored sample, and a connection of the role that may read its marts alone."""
    with (
        embedded.throw_away() as server,
        tempfile.TemporaryDirectory() as folder,
        fresh_database(server, Path(folder)) as database,
    ):
        with database.connect() as connection:
            connection.execute(f"create role {READER} login")
            load_sample(connection)
        os.environ["CIRIS_MART_READERS"] = READER
        score(database.profiles_dir, sample_info()["as_of"])
        with database.connect() as connection:
            connection.execute(f"grant usage on schema {SCHEMA} to {READER}")
        reader = re.sub("user=[^ ]+", f"user={READER}", server.conninfo(database.name))
        with psycopg.connect(reader, autocommit=True, options="-c timezone=America/New_York") as connection:
            yield database, connection


def bundle(database: Database, folder: Path) -> Path:
    """The bundle as a user makes it, for this database."""
    file = folder / "ciris_capacity.zip"
    server = database.server
    uri = f"postgresql+psycopg2://{READER}@/{database.name}?host={server.socket_folder}&port={server.port}"
    program = REPOSITORY / "dashboards/superset/bundle.py"
    dbt = [Path(sys.executable).parent / "dbt", "parse", "--quiet", "--profiles-dir", database.profiles_dir]
    subprocess.run([*dbt, "--target-path", folder / "target"], cwd=REPOSITORY, check=True)
    manifest = folder / "target/manifest.json"
    subprocess.run([sys.executable, program, file, "--uri", uri, "--manifest", manifest], check=True)
    return file


def window_independent() -> set[str]:
    """Charts that the dashboard's filter of the window leaves alone."""
    dashboard = yaml.safe_load((BUNDLE / "dashboards/ciris_capacity.yaml").read_text())
    [window] = [
        one
        for one in dashboard["metadata"]["native_filter_configuration"]
        if one["targets"][0].get("column") == {"name": "window_days"}
    ]
    return {
        part["meta"]["sliceName"]
        for part in dashboard["position"].values()
        if isinstance(part, dict)
        and part.get("type") == "CHART"
        and part["meta"]["chartId"] in window["scope"]["excluded"]
    }


def main() -> None:
    """Print a table of the charts, and exit with 1 where one of them differs."""
    started = time.monotonic()
    with scored() as (database, reader), tempfile.TemporaryDirectory() as name:
        superset = Superset(Path(name))
        print("Superset makes its own tables", flush=True)
        superset.command("db", "upgrade")
        admin = f"--username {USER} --password {PASSWORD} --firstname A --lastname B --email a@example.org"
        superset.command("fab", "create-admin", *admin.split())
        superset.command("init")
        file = bundle(database, Path(name))
        for _ in range(2):
            superset.command("import-dashboards", "--path", str(file), "--username", USER)
        with superset.running():
            charts, free = superset.charts(), window_independent()
            if charts.keys() != BY_SQL.keys():
                sys.exit(f"Charts that are not expected, or missing: {sorted(charts.keys() ^ BY_SQL.keys())}")
            wrong = 0
            print(f"\n{'chart':<32}{'rows':>6}  held against SQL")
            for title, query in BY_SQL.items():
                found = data(superset, charts[title], title in free)
                expected = reader.execute(sql.SQL(query)).fetchall()
                faults = differences(found, expected)
                wrong += bool(faults) or not expected
                print(f"{title:<32}{len(found):>6}  {'; '.join(faults[:3]) or 'the same'}", flush=True)
            complaints = take_picture(superset)
    print(f"\nThe picture is {PICTURE}.")
    print(f"{time.monotonic() - started:.0f} s after Superset was installed.")
    if wrong or complaints:
        sys.exit(f"{wrong} charts differ; the page says: {complaints}")


if __name__ == "__main__":
    main()
