"""Score the fleet every day, with an Airflow task for each model and one for its tests (Cosmos).

Install astronomer-cosmos and the wheel of ciris-scoring in the environment of Airflow 3. Copy this file into the folder
of the DAGs. `ciris-scoring init FOLDER` makes the project, with its profiles.yml.
"""

import os
from datetime import datetime, timedelta
from pathlib import Path

from cosmos import DbtDag, ExecutionConfig, ProfileConfig, ProjectConfig, RenderConfig
from cosmos.constants import SourceRenderingBehavior, TestBehavior, TestIndirectSelection

PROJECT = Path(os.environ.get("CIRIS_PROJECT", "/srv/ciris-scoring"))

ciris_scoring = DbtDag(
    dag_id="ciris_scoring",
    schedule="20 1 * * *",  # UTC, 80 minutes after the end of the day that is scored
    start_date=datetime(2026, 1, 1),
    catchup=False,  # the next run scores everything since the last one
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    project_config=ProjectConfig(PROJECT),
    profile_config=ProfileConfig(
        profile_name="ciris_scoring",
        target_name=os.environ.get("CIRIS_TARGET", "dev"),
        profiles_yml_filepath=PROJECT / "profiles.yml",
    ),
    # A test runs after the last model that it reads, and before the models after it.
    # A source fails if no trace has arrived for 7 days.
    render_config=RenderConfig(
        test_behavior=TestBehavior.AFTER_EACH,
        source_rendering_behavior=SourceRenderingBehavior.WITH_TESTS_OR_FRESHNESS,
    ),
    execution_config=ExecutionConfig(test_indirect_selection=TestIndirectSelection.BUILDABLE),
    # All processes of a run share this text, also when Airflow starts a process again.
    operator_args={"env": {"CIRIS_RUN": "{{ run_id }}"}, "append_env": True},
)
