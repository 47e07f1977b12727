"""Pack the Superset dashboard into the zip file that Superset imports, for a database of your own.

    dbt parse --target prod
    python dashboards/superset/bundle.py ciris.zip --uri postgresql+psycopg2://bi@localhost/ciris

Run it in the project's folder, with the Python that has ciris-scoring. Names, schema, columns and descriptions of the
datasets are those of dbt's manifest, which dbt parse writes. Superset asks for the password when it imports the file.
"""

import argparse
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from ciris_scoring.reading.words import PART_WORDS, named

FOLDER = Path(__file__).parent / "ciris_capacity"
DATABASE_UUID = "e726c10f-9094-5160-95f0-ab198c44a93e"
"""As in databases/ciris.yaml."""
PACKAGE = "ciris_scoring"


@dataclass(frozen=True)
class Dataset:
    """What Superset calls a dataset: a mart, or a query on marts. Charts name it by its uuid, which so has to stay."""

    name: str
    uuid: str
    time_column: str
    description: str
    columns: Mapping[str, str] | None = None
    """Of a query: each column, and the mart whose column it is. None for all columns of the mart."""
    query: str | None = None
    """With marts in braces."""


_WORDS = {part: named(part).replace("'", "''") for part in PART_WORDS}
IN_WORDS = "\n".join(f"        when '{part}' then '{words}'" for part, words in _WORDS.items())
OF_NEWEST = (
    *("agent_label", "agent_id_hash", "as_of", "window_days", "capacity_score", "capacity_score_low"),
    *("capacity_score_high", "c_score", "i_int_score", "r_score", "i_inc_score", "s_score", "category"),
    *("category_certainty", "score_status", "weakest_factor", "n_traces", "capacity_score_steady"),
    *("capacity_score_steady_low", "capacity_score_steady_high", "category_steady_certainty"),
)
DATASETS = (
    Dataset(
        "fct_capacity_scores",
        "3db49d35-f520-5f63-a0ca-34c63ad462a0",
        "as_of",
        "Published scores: one row per agent, as-of and window.",
    ),
    Dataset(
        "fct_fleet_capacity",
        "6c6832d2-1d2f-5c1f-bc1f-0a8245583865",
        "as_of",
        "The fleet: one row per as-of and window.",
    ),
    Dataset(
        "fct_capacity_alerts",
        "14292572-d85e-5cd4-8e7b-cea59920972f",
        "as_of",
        "The agents that stand out at the newest as-of.",
    ),
    Dataset(
        "fct_data_quality",
        "dd6b3cd1-5755-5227-afe5-4d9189e0fab8",
        "period_start",
        "What was repaired or refused, and what the ingestion counted.",
    ),
    Dataset(
        "fct_scoring_runs",
        "a05b9640-81d2-5f6c-b23b-ad87f3f2a31f",
        "ended_at",
        "The attempts to publish, and what became of them.",
    ),
    Dataset(
        "newest_capacity_scores",
        "83d59d68-d29a-57a6-80cf-6a6acae35d2b",
        "as_of",
        "The scores of the newest as-of, which can be counted and averaged over agents. Filter window_days: windows "
        "overlap.",
        dict.fromkeys(OF_NEWEST, "fct_capacity_scores"),
        f"""select
    {", ".join(OF_NEWEST)}
from {{fct_capacity_scores}}
where as_of = (select max(newest.as_of) from {{fct_capacity_scores}} as newest)
""",
    ),
    Dataset(
        "newest_points_lost",
        "5c1ac47d-374e-5bd7-bc4a-207ba5c4e62a",
        "as_of",
        "What each part took from the scores of the newest as-of.",
        {
            "agent_label": "fct_capacity_scores",
            **dict.fromkeys(
                ("as_of", "window_days", "factor", "part", "points_lost"), "fct_score_attribution"
            ),
        },
        f"""select
    scores.agent_label, parts.as_of, parts.window_days, parts.factor,
    case parts.part
{IN_WORDS}
    end as part,
    parts.points_lost
from {{fct_score_attribution}} as parts
inner join {{fct_capacity_scores}} as scores using (agent_id_hash, as_of, window_days)
where scores.as_of = (select max(newest.as_of) from {{fct_capacity_scores}} as newest)
""",
    ),
)


def files(manifest: Mapping[str, Any], uri: str | None = None, schema: str | None = None) -> dict[str, str]:
    """Return the texts of the bundle by their names in it.

    :param manifest: dbt's.
    :param uri: SQLAlchemy's address of the database; None for the example's.
    :param schema: the marts' schema; None for the manifest's.
    """
    texts = {}
    for path in sorted(FOLDER.rglob("*.yaml")):
        name, text = path.relative_to(FOLDER), path.read_text("utf-8")
        if name.parts[0] == "databases" and uri is not None:
            text = _set(text, "sqlalchemy_uri", uri)
        texts[f"ciris_capacity/{name.as_posix()}"] = text
    marts = {
        node["name"]: node
        for node in manifest["nodes"].values()
        if node["resource_type"] == "model" and node["package_name"] == PACKAGE
    }
    for dataset in DATASETS:
        # JSON is YAML too, so nothing but Python is needed to write it.
        text = json.dumps(dataset_of(dataset, marts, schema), indent=2, ensure_ascii=False)
        texts[f"ciris_capacity/datasets/ciris/{dataset.name}.yaml"] = f"{text}\n"
    return texts


def dataset_of(dataset: Dataset, marts: Mapping[str, Any], schema: str | None) -> dict[str, Any]:
    """Describe a dataset as Superset's import wants it.

    :param marts: nodes of the manifest, by name.
    :param schema: of the marts; None for the manifest's.
    """
    columns = dataset.columns or dict.fromkeys(marts[dataset.name]["columns"], dataset.name)
    aliases = {name: node["alias"] for name, node in marts.items()}
    return {
        "version": "1.0.0",
        "uuid": dataset.uuid,
        "database_uuid": DATABASE_UUID,
        "schema": schema or marts[next(iter(columns.values()))]["schema"],
        "table_name": aliases.get(dataset.name, dataset.name),
        "description": dataset.description,
        "main_dttm_col": dataset.time_column,
        "sql": None if dataset.query is None else dataset.query.format(**aliases),
        "filter_select_enabled": True,
        "offset": 0,
        "metrics": [
            {
                "metric_name": "count",
                "verbose_name": "Rows",
                "metric_type": "count",
                "expression": "count(*)",
            }
        ],
        "columns": [_column(name, marts[mart]["columns"][name]) for name, mart in columns.items()],
    }


def _column(name: str, column: Mapping[str, Any]) -> dict[str, Any]:
    kind = column["data_type"].upper()
    return {
        "column_name": name,
        "type": kind,
        "is_dttm": kind.startswith(("TIMESTAMP", "DATE")),
        "is_active": True,
        "groupby": True,
        "filterable": True,
        "description": column["description"],
    }


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
    parser.add_argument("--schema", help="schema of the marts (that of the manifest)")
    parser.add_argument(
        "--manifest", type=Path, default=Path("target/manifest.json"), help="dbt's (target/manifest.json)"
    )
    arguments = parser.parse_args()
    if not arguments.manifest.is_file():
        sys.exit(f"There is no {arguments.manifest}: run dbt parse first, or name the file with --manifest.")
    manifest = json.loads(arguments.manifest.read_text("utf-8"))
    with ZipFile(arguments.file, "w", ZIP_DEFLATED) as bundle:
        for name, text in files(manifest, arguments.uri, arguments.schema).items():
            bundle.writestr(name, text)
    print(f"{arguments.file} is ready: Superset, Dashboards, the button to import.")


if __name__ == "__main__":
    main()
