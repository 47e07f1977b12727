"""Score the fleet every day with Prefect, as one dbt build whose models are Prefect's tasks.

Install prefect, prefect-dbt and the wheel of ciris-scoring. Start with `python score_fleet.py`, which scores at the
times of the schedule. `ciris-scoring init FOLDER` makes the project.
"""

import os
from pathlib import Path

from prefect import flow
from prefect_dbt import PrefectDbtRunner, PrefectDbtSettings

PROJECT = Path(os.environ.get("CIRIS_PROJECT", "/srv/ciris-scoring"))


@flow(name="ciris-scoring", retries=2, retry_delay_seconds=60)
def score() -> None:
    """Build, test and publish all marts. If no trace has arrived for 7 days, or a model or test fails, the flow fails,
    and published scores stay as they are."""
    settings = PrefectDbtSettings(project_dir=PROJECT, profiles_dir=PROJECT)
    runner = PrefectDbtRunner(settings=settings)
    runner.invoke(["source", "freshness"])
    runner.invoke(["build"])


if __name__ == "__main__":
    score.serve(name="daily", cron="20 1 * * *", limit=1)
