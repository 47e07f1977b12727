"""The folder of the dbt project in this package."""

from pathlib import Path


def own_project() -> Path:
    """Return the folder of the dbt project in this package, or of the checkout that the package was installed from."""
    package = Path(__file__).parent
    return package / "dbt_project" if (package / "dbt_project").is_dir() else package.parents[1]
