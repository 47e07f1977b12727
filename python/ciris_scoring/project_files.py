"""What the dbt project consists of, for setup.py, which has nothing but Python when it puts it into the wheel."""

import shutil
from pathlib import Path

PARTS = (
    *("dbt_project.yml", "profiles.yml.example", "analyses", "models", "macros", "seeds"),
    *("dashboards", "docs/glossary.md", "tests/generic", "tests/singular"),
)
"""Files and folders, from the project's folder."""


def copy_project(source: Path, goal: Path) -> None:
    """Copy the project from one folder into another that has none of it.

    :raises OSError: one of the folders is there already, or something cannot be read or written.
    """
    for part in PARTS:
        (goal / part).parent.mkdir(parents=True, exist_ok=True)
        if (source / part).is_dir():
            shutil.copytree(source / part, goal / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source / part, goal / part)
