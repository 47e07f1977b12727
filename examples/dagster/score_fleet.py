"""Score the fleet every day with Dagster, as one dbt build whose models are Dagster's assets.

Install dagster, dagster-dbt and the wheel of ciris-scoring. Start with `dagster dev -f score_fleet.py`.
`ciris-scoring init FOLDER` makes the project.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from dagster import AssetExecutionContext, AssetSelection, Definitions, ScheduleDefinition, define_asset_job
from dagster_dbt import DbtCliResource, DbtProject, dbt_assets

project = DbtProject(Path(os.environ.get("CIRIS_PROJECT", "/srv/ciris-scoring")), target=os.environ.get("CIRIS_TARGET"))
project.prepare_if_dev()


@dbt_assets(manifest=project.manifest_path, project=project)
def scores(context: AssetExecutionContext, dbt: DbtCliResource) -> Iterator[object]:
    """Build, test and publish all marts, unless no trace has arrived for 7 days. Always select all assets: a part of
    them publishes nothing."""
    dbt.cli(["source", "freshness"]).wait()
    yield from dbt.cli(["build"], context=context).stream()


score = define_asset_job("score", selection=AssetSelection.assets(scores), tags={"dagster/max_retries": "2"})

definitions = Definitions(
    assets=[scores],
    jobs=[score],
    schedules=[ScheduleDefinition(job=score, cron_schedule="20 1 * * *", execution_timezone="UTC")],
    resources={"dbt": DbtCliResource(project_dir=project)},
)
