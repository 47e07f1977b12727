"""The wheel carries the dbt project, which `ciris-scoring init` unfolds; everything else is in pyproject.toml."""

import shutil
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "python"))

from ciris_scoring.project_files import copy_project  # noqa: E402, before it is installed


class WithProject(build_py):
    """Copies the dbt project into the package."""

    def run(self) -> None:
        """Build the package, then add the project."""
        super().run()
        if self.editable_mode:
            return
        folder = Path(self.build_lib, "ciris_scoring", "dbt_project")
        shutil.rmtree(folder, ignore_errors=True)  # delete the copy of an earlier build
        copy_project(HERE, folder)


setup(cmdclass={"build_py": WithProject})
