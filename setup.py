"""Build the wheel. It contains the dbt project, which `ciris-scoring init` copies.

The version is read from dbt_project.yml, because dbt cannot read it from anywhere else. The project's URLs are those of
the GitHub repository in which CI builds the wheel, so the wheel of a fork has the URLs of the fork. The rest of the
metadata is in pyproject.toml.
"""

import os
import re
import shutil
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "python"))

from ciris_scoring.project_files import copy_project  # noqa: E402, from the source, before it is installed


class WithProject(build_py):
    """Build step that copies the dbt project into the package."""

    def run(self) -> None:
        """Build the package, then add the project."""
        super().run()
        if self.editable_mode:
            return
        folder = Path(self.build_lib, "ciris_scoring", "dbt_project")
        shutil.rmtree(folder, ignore_errors=True)  # delete the copy of an earlier build
        copy_project(HERE, folder)


def version() -> str:
    """Return the version of the dbt project."""
    return re.findall(r'^version: &version "(.*)"$', (HERE / "dbt_project.yml").read_text("utf-8"), re.MULTILINE)[0]


def addresses() -> dict[str, str]:
    """Return the URL of the specification and, in a build by GitHub Actions, the URLs of the repository."""
    found = {"Specification": "https://ciris.ai/ciris-scoring"}
    if repository := os.environ.get("GITHUB_REPOSITORY"):
        source = f"{os.environ['GITHUB_SERVER_URL']}/{repository}"
        found |= {
            "Source": source,
            "Documentation": f"{source}/blob/v{version()}/docs/README.md",
            "Changelog": f"{source}/blob/v{version()}/CHANGELOG.md",
            "Issues": f"{source}/issues",
        }
    return found


setup(version=version(), project_urls=addresses(), cmdclass={"build_py": WithProject})
