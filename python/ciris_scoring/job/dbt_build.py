"""dbt in this process: one parsed project, the two halves of a run, a line of progress for each finished node."""

import gc
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from threading import Lock
from typing import Any, Literal

import click

from ciris_scoring.basics.connection import SETTINGS_NOT_TO_INHERIT, settings_of_cluster
from ciris_scoring.basics.errors import DbtFailed, RunRefused
from ciris_scoring.basics.project import PARSED_VARIABLES, PREFIX, Project, without_garbage_collection
from ciris_scoring.basics.relations import PACKAGE
from ciris_scoring.basics.terminal import printable, say

CHECK_INTERVAL = "client_connection_check_interval"

Half = Literal["before_resilience", "after_resilience"]
"""The halves of a run, before and after the Python steps, as selectors.yml names them for plain dbt. A project that has
the scores as a package does not inherit its selectors."""
_AFTER_STEPS = [
    f"fqn:{PACKAGE}.intermediate.{name}+"
    for name in ("factors.int_resilience", "intervals.int_score_intervals")
]
_UNCHANGED = "ciris_unchanged"
_SHOWN = {
    "success": "ok",
    "pass": "ok",
    "skipped": "skipped",
    "warn": "WARN",
    "fail": "FAIL",
    "error": "ERROR",
}
_COLOURS = {"ok": "green", "skipped": "bright_black", "WARN": "yellow", "FAIL": "red", "ERROR": "red"}
_LONG_ROW = re.compile(r"(Failing row contains \(.{160})[^$]*\)")
"""What PostgreSQL shows of a row that breaks a rule: its key comes first."""
_PLACE = ("> ", "CONTEXT:  PL/pgSQL function inline_code_block")
_BEFORE_MARTS = "The marts stay as they were."
_AMONG_MARTS = "Each mart is whole, some already of this run; the next run brings them together."
_HINTS = {
    "test": "{marts} `{sql}` is the query of the failing rows; correct the data or the model, then run again.",
    "operation": "Nothing was built. Correct it, then run again.",
}
_FOLDERS_HINT = (
    "dbt writes to target/ and logs/ in the project; DBT_TARGET_PATH and DBT_LOG_PATH name other folders."
)
_OTHER_HINT = "{marts} `{sql}` is its SQL; correct the cause, then run again."


def _with_run(project: Project, run_variables: Mapping[str, Any]) -> dict[str, Any]:
    return {**project.cli_vars, **{f"{PREFIX}{name}": value for name, value in run_variables.items()}}


@without_garbage_collection()
def parse(project: Project) -> Any:
    """Return dbt's manifest of a project.

    It is parsed without those of our variables that only decide what its SQL says: dbt keeps what it has parsed from
    run to run, but throws it away when a variable has changed, and parsing again takes seconds. What another project's
    variables decide is not known.

    :raises DbtFailed: the project does not parse.
    """
    parsed = {
        name: value
        for name, value in project.cli_vars.items()
        if name in PARSED_VARIABLES or not str(name).startswith(PREFIX)
    }
    return invoke(project, ["parse"], parsed)


class DbtBuild:
    """Builds selections of one project, parsed once.

    :param project: project and target.
    :param run_variables: variables of this run alone, without their prefix, beside those of the command line.
    :param full_refresh: rebuild incremental models from nothing.
    :raises DbtFailed: the project does not parse.
    """

    def __init__(self, project: Project, run_variables: Mapping[str, Any], full_refresh: bool = False):
        self._project = project
        self._variables = _with_run(project, run_variables)
        self.full_refresh = full_refresh
        self._manifest = project.manifest
        # The parsed project is a million objects that stay: looking through them for garbage took a tenth of a run.
        gc.freeze()
        gc.set_threshold(20_000)

    def with_variables(self, run_variables: Mapping[str, Any], full_refresh: bool = False) -> "DbtBuild":
        """Return a build of the same parsed project with other variables of its own."""
        other = copy(self)
        other.full_refresh = full_refresh
        other._variables = _with_run(self._project, run_variables)
        return other

    def build(self, half: Half, unchanged: Collection[str] = ()) -> None:
        """Build and test one half of a run; unit tests, which no data can break, stay out.

        :param unchanged: unique ids of what is left as it stands. Tests of it that ask for data are run all the same.
        :raises DbtFailed: names the first node that failed, dbt's message, and what to do.
        """
        if half == "before_resilience":
            select, exclude = [f"package:{PACKAGE}"], list(_AFTER_STEPS)
        else:
            select, exclude = [f"package:{PACKAGE},{after}" for after in _AFTER_STEPS], []
        if unchanged:
            # By a mark, because dbt looks through all nodes for each name that it is given.
            self._mark(unchanged)
            exclude.append(f"tag:{_UNCHANGED}")
        command = [
            *("build", "--select", *select),
            *(("--exclude", *exclude) if exclude else ()),
            # Tests go by their own package: another's on the marts stay out, and ours on what is left out stay in.
            *("--indirect-selection", "empty"),
            *("--exclude-resource-type", "unit_test", "--exclude-resource-type", "exposure"),
            *(["--full-refresh"] if self.full_refresh else ()),
        ]
        variables = {**self._variables, f"{PREFIX}unchanged_nodes": list(unchanged)}
        invoke(self._project, command, variables, manifest=self._manifest, callbacks=[_Progress()])

    def _mark(self, unchanged: Collection[str]) -> None:
        for node in self._manifest.nodes.values():
            others = [tag for tag in node.tags if tag != _UNCHANGED]
            node.tags = [*others, _UNCHANGED] if node.unique_id in unchanged else others


def invoke(project: Project, command: list[str], variables: Mapping[str, Any], **runner: Any) -> Any:
    """Run a dbt command in this process and return its result.

    :param variables: those of ``--vars``.
    :param runner: arguments of dbtRunner.
    :raises DbtFailed: dbt stopped, or a node failed.
    """
    from dbt.cli.main import dbtRunner
    from dbt_common.exceptions import CompilationError

    from ciris_scoring.job.dbt_events import leave_out_debug_messages

    leave_out_debug_messages()
    options = [
        *("--project-dir", str(project.project_dir)),
        *("--profiles-dir", str(project.profiles_dir)),
        *("--target", project.target_name),
        *("--vars", json.dumps(variables, default=str)),
        *(
            "--log-level",
            "none",
            "--log-level-file",
            "info",
            "--quiet",
            "--no-send-anonymous-usage-stats",
        ),
        # Writing dbt's JSON artefacts is a tenth of a run: they are for those who ask for them.
        *([] if os.environ.get("DBT_WRITE_JSON") else ["--no-write-json"]),
    ]
    with environment_of_sessions(project):
        outcome: Any = dbtRunner(**runner).invoke([*command, *options])
    if isinstance(outcome.exception, KeyboardInterrupt | SystemExit):
        raise outcome.exception
    if outcome.exception is not None:
        # Hooks that check are compiled before anything is built.
        kind = RunRefused if isinstance(outcome.exception, CompilationError) else DbtFailed
        hint = _FOLDERS_HINT if isinstance(outcome.exception, OSError) else _log_hint(project)
        raise kind(f"dbt stopped: {_core(str(outcome.exception))}", hint)
    if not outcome.success:
        raise _failure(project, outcome.result.results)
    return outcome.result


def _failure(project: Project, results: list[Any]) -> DbtFailed:
    failed = [r for r in results if r.status in ("error", "fail")]
    if not failed:
        return DbtFailed("dbt reports a failure without naming a node.", _log_hint(project))
    first, node = failed[0], failed[0].node
    others = f" ({len(failed) - 1} more failed)" if len(failed) > 1 else ""
    # A compilation error at this point is the project's own word on what is wrong and what to do.
    speaks = "Compilation Error" in str(first.message) and first.status == "error"
    hint = ("{marts}" if speaks else _HINTS.get(node.resource_type, _OTHER_HINT)).format(
        marts=_AMONG_MARTS if "marts" in node.fqn else _BEFORE_MARTS,
        sql=getattr(node, "compiled_path", None) or node.original_file_path,
    )
    # The models of models/intermediate/run check what they are told before any trace is looked at.
    is_refused = node.resource_type == "operation" or (speaks and "run" in node.fqn)
    kind = RunRefused if is_refused else DbtFailed
    return kind(
        f"dbt stopped at {node.resource_type.replace('_', ' ')} {node.name} "
        f"({node.original_file_path}){others}: {_core(first.message or first.status)}",
        hint,
    )


def _log_hint(project: Project) -> str:
    from dbt.flags import get_flags

    return f"dbt's log is {project.project_dir / get_flags().LOG_PATH / 'dbt.log'}."


class _Progress:
    """dbt calls it with every event, from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._finished = 0
        self._total = 0

    def __call__(self, event: Any) -> None:
        name, data = event.info.name, event.data
        with self._lock:
            if name in ("LogStartLine", "SkippingDetails"):
                self._total = data.total
            elif (
                name == "NodeFinished" and data.node_info.materialized != "ephemeral"
            ):  # dbt's total has no such
                self._finished += 1
                self._show(data.node_info, data.run_result)
            elif name in ("JinjaLogInfo", "JinjaLogWarning", "PrintEvent"):
                for line in event.info.msg.splitlines():
                    say(f"  {line}")

    def _show(self, node: Any, result: Any) -> None:
        status = _SHOWN.get(result.status, result.status)
        width = len(str(self._total))
        count = f"{self._finished:>{width}} of {self._total}"
        kind = node.resource_type.replace("_", " ")
        label = click.style(f"{status:<7}", fg=_COLOURS.get(status))
        note = f"  {printable(_core(result.message))}" if status in ("WARN", "FAIL", "ERROR") else ""
        click.echo(
            f"  {count}  {label}  {result.execution_time:6.1f} s  {kind} {node.node_name}{note}", err=True
        )


def _core(message: str) -> str:
    """dbt's message on one line, without its heading and the place below it in macros, or in SQL of theirs."""
    lines = [line.strip() for line in str(message).splitlines()]
    stack = next((i for i, line in enumerate(lines) if line.startswith(_PLACE)), len(lines))
    lines = [line for line in lines[:stack] if line and not line.startswith("compiled code at ")]
    if len(lines) > 1 and " Error in " in lines[0]:
        lines = lines[1:]
    return _LONG_ROW.sub(r"\1 ...)", " ".join(lines))


@contextmanager
def environment_of_sessions(project: Project) -> Iterator[None]:
    """Give dbt's sessions the settings that they are not to inherit, through the environment that libpq reads.

    And have the server end the queries of a dbt whose process was killed, so that they do not meet the next run's.
    What the caller's PGOPTIONS say comes after, and holds.
    """
    settings = {**SETTINGS_NOT_TO_INHERIT, **settings_of_cluster(project), CHECK_INTERVAL: "1s"}
    options = [
        f"-c {name}={value}".replace("read committed", r"read\ committed") for name, value in settings.items()
    ]
    before = {name: os.environ.get(name) for name in ("PGOPTIONS", "PGCLIENTENCODING")}
    os.environ["PGOPTIONS"] = " ".join([*options, before["PGOPTIONS"] or ""]).strip()
    os.environ["PGCLIENTENCODING"] = "UTF8"
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
