"""The wheel carries the dbt project, which `ciris-scoring init` unfolds; everything else is in pyproject.toml."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

# As in ciris_scoring/init.py, which cannot be imported before it is built.
PARTS = (
    "dbt_project.yml",
    "selectors.yml",
    "profiles.yml.example",
    "models",
    "macros",
    "seeds",
    "dashboards",
)
TESTS = ("tests/generic", "tests/singular")


class WithProject(build_py):
    """Copies the dbt project into the package."""

    def run(self) -> None:
        """Build the package, then add the project."""
        super().run()
        if self.editable_mode:
            return
        folder = Path(self.build_lib, "ciris_scoring", "dbt_project")
        shutil.rmtree(folder, ignore_errors=True)  # of an earlier build, with models that may be gone
        for part in (*PARTS, *TESTS):
            source, goal = Path(part), folder / part
            if source.is_dir():
                shutil.copytree(source, goal, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                goal.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, goal)


setup(cmdclass={"build_py": WithProject})
