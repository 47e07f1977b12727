"""List the files of the dbt project. setup.py needs the list to build the wheel, so this module imports only the
standard library."""

import shutil
from pathlib import Path

PARTS = (
    *("dbt_project.yml", "selectors.yml", "profiles.yml.example", "models", "macros", "seeds"),
    *("dashboards", "docs/glossary.md", "tests/singular"),
)
"""Files and folders of the dbt project, relative to its folder."""


def copy_project(source: Path, goal: Path) -> None:
    """Copy the dbt project into another folder, which must not contain the project's folders yet."""
    for part in PARTS:
        (goal / part).parent.mkdir(parents=True, exist_ok=True)
        if (source / part).is_dir():
            shutil.copytree(source / part, goal / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source / part, goal / part)
