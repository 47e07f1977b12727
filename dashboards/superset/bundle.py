"""Pack the Superset dashboard into the zip file that Superset imports, for a database and a schema of your own.

    python dashboards/superset/bundle.py ciris.zip --uri postgresql+psycopg2://bi@localhost/ciris --schema trust

Superset asks for the password when it imports the file. It needs nothing but Python.
"""

import argparse
import re
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

FOLDER = Path(__file__).parent / "ciris_capacity"


def files(uri: str | None = None, schema: str | None = None) -> dict[str, str]:
    """Return the texts of the bundle by their names in it.

    :param uri: SQLAlchemy's address of the database; None for the example's.
    :param schema: the marts' schema; None for ``ciris``.
    """
    texts = {}
    for path in sorted(FOLDER.rglob("*.yaml")):
        name, text = path.relative_to(FOLDER), path.read_text("utf-8")
        if name.parts[0] == "databases" and uri is not None:
            text = _set(text, "sqlalchemy_uri", uri)
        if name.parts[0] == "datasets" and schema is not None:
            text = _set(text, "schema", schema)
        texts[f"ciris_capacity/{name.as_posix()}"] = text
    return texts


def _set(text: str, key: str, value: str) -> str:
    """Set a top-level key of a YAML file."""
    quoted = "'" + value.replace("'", "''") + "'"
    return re.sub(rf"^{key}: .*$", lambda _: f"{key}: {quoted}", text, count=1, flags=re.MULTILINE)


def main() -> None:
    """Write the file that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="the zip file to write")
    parser.add_argument("--uri", help="SQLAlchemy's address of the database, without a password")
    parser.add_argument("--schema", help="schema of the marts (ciris)")
    arguments = parser.parse_args()
    with ZipFile(arguments.file, "w", ZIP_DEFLATED) as bundle:
        for name, text in files(arguments.uri, arguments.schema).items():
            bundle.writestr(name, text)
    print(f"{arguments.file} is ready: Superset, Dashboards, the button to import.")


if __name__ == "__main__":
    main()
