"""Run dbt in this process: commands, the manifest, and messages for failures.

Importing dbt takes a second, so it is imported inside the functions, and `--help` stays fast.
"""

import re
from collections.abc import Mapping
from typing import Any

from ciris_scoring.database.connection import hint_of
from ciris_scoring.database.project import Project, dbt_variable, vars_text
from ciris_scoring.database.relations import Relations, relations_of
from ciris_scoring.database.variables import PARSED_VARIABLES, PREFIX
from ciris_scoring.errors import DbtFailed, RunRefused

_LONG_ROW = re.compile(r"(Failing row contains \(.{160})[^$]*\)")
"""Pattern of the row in PostgreSQL's message about a violated constraint. Messages show only its beginning, the key."""
_PLACE = ("> ", "CONTEXT:  PL/pgSQL function inline_code_block")
_NOT_BUILT = "Nothing was built."
_NOT_PUBLISHED = "The marts stay as they were."
_PUBLISHED = "The marts are those of this run."
_HINTS = {
    "test": "{marts} `{sql}` is the query of the failing rows; correct the data or the model, then run again.",
    "operation": "{marts} Correct it, then run again.",
}
_PUBLICATION = "int_runs"
"""Model whose success means that the marts have the results of the run."""
_FOLDERS_HINT = "dbt writes to target/ and logs/ in the project; DBT_TARGET_PATH and DBT_LOG_PATH name other folders."
_OTHER_HINT = "{marts} `{sql}` is the code of the node; correct the cause, then run again."


def parse(project: Project) -> Any:
    """Parse a project, note its relations for later commands, and return dbt's manifest.

    dbt parses again, for seconds, whenever a variable has changed. Therefore variables of this project that only change
    SQL are not passed to dbt. Variables of other projects are passed, because they may affect parsing.

    :raises DbtFailed: the project cannot be parsed.
    """
    parsed = {
        name: value
        for name, value in project.cli_vars.items()
        if name in PARSED_VARIABLES or not str(name).startswith(PREFIX)
    }
    manifest = invoke(project, ["parse"], parsed)
    project.note.write(project, relations_of(manifest, project.schema))
    return manifest


def read_relations(project: Project) -> Relations:
    """Return the relations of a project's models, from the note of an earlier command or from dbt.

    :raises DbtFailed: dbt cannot parse the project.
    """
    noted = project.note.read()
    return relations_of(parse(project), project.schema) if noted is None else noted[1]


def invoke(
    project: Project,
    command: list[str],
    variables: Mapping[str, Any],
    **runner: Any,
) -> Any:
    """Run a dbt command in this process and return its result.

    :param runner: arguments of dbtRunner.
    :raises DbtFailed: dbt stopped, or a node failed.
    :raises RunRefused: the checks at the start of a run refused it.
    """
    from dbt.cli.main import dbtRunner
    from dbt_common.exceptions import CompilationError

    options = [
        *("--project-dir", str(project.project_dir)),
        *("--profiles-dir", str(project.profiles_dir)),
        *("--profile", project.profile_name, "--target", project.target_name),
        *("--vars", vars_text(variables)),
        *("--log-level", "none", "--log-level-file", "info"),
        *("--quiet", "--no-send-anonymous-usage-stats"),
        # Do not write dbt's JSON artefacts, because that takes a tenth of the time of a run.
        *([] if dbt_variable("WRITE_JSON") else ["--no-write-json"]),
    ]
    outcome: Any = dbtRunner(**runner).invoke([*command, *options])
    if isinstance(outcome.exception, KeyboardInterrupt | SystemExit):
        raise outcome.exception
    if outcome.exception is not None:
        # A compilation error comes from the checks at the start of a run. They are hooks, which dbt compiles before it
        # builds anything.
        kind = RunRefused if isinstance(outcome.exception, CompilationError) else DbtFailed
        message = core(str(outcome.exception))
        hint = hint_of(message) or _log_hint(project)
        if isinstance(outcome.exception, OSError):
            hint = _FOLDERS_HINT
        raise kind(message if kind is RunRefused else f"dbt stopped: {message}", hint)
    if not outcome.success:
        raise _failure(project, outcome.result.results)
    return outcome.result


def _failure(project: Project, results: list[Any]) -> DbtFailed:
    failed = [r for r in results if r.status in ("error", "fail")]
    if not failed:
        return DbtFailed("dbt reports a failure without naming a node.", _log_hint(project))
    first, node = failed[0], failed[0].node
    others = f" ({len(failed) - 1} more failed)" if len(failed) > 1 else ""
    # A compilation error of a node is a message of this project, which already contains the remedy.
    speaks = "Compilation Error" in str(first.message) and first.status == "error"
    of_setting = hint_of(str(first.message))
    built = {r.node.name for r in results if r.node.resource_type in ("model", "seed") and r.status == "success"}
    # dbt builds the nodes even if a hook at the start of the run failed.
    stopped_at_hook = node.resource_type == "operation" and not built
    hint = (
        "{marts}"
        if speaks
        else f"{{marts}} {of_setting}"
        if of_setting
        else _HINTS.get(node.resource_type, _OTHER_HINT)
    ).format(
        marts=_NOT_BUILT if stopped_at_hook else _PUBLISHED if _PUBLICATION in built else _NOT_PUBLISHED,
        sql=getattr(node, "compiled_path", None) or node.original_file_path,
    )
    # The models in models/intermediate/run check settings before any trace is read.
    is_refused = stopped_at_hook or (speaks and "run" in node.fqn)
    message = core(first.message or first.status)
    at = f"dbt stopped at {node.resource_type.replace('_', ' ')} {node.name} ({node.original_file_path}){others}"
    # A refusal is about a setting, not about the node that found it.
    return RunRefused(f"{message} ({at})", hint) if is_refused else DbtFailed(f"{at}: {message}", hint)


def _log_hint(project: Project) -> str:
    from dbt.flags import get_flags

    return f"dbt's log is {project.project_dir / get_flags().LOG_PATH / 'dbt.log'}."


def core(message: str) -> str:
    """Return dbt's message on one line, without the heading and without the stack of macros or SQL."""
    lines = [line.strip() for line in str(message).splitlines()]
    stack = next((i for i, line in enumerate(lines) if line.startswith(_PLACE)), len(lines))
    lines = [line for line in lines[:stack] if line and not line.startswith("compiled code at ")]
    if len(lines) > 1 and " Error in " in lines[0]:
        lines = lines[1:]
    return _LONG_ROW.sub(r"\1 ...)", " ".join(lines))
