"""Build a parsed project by dbt, and print a line of progress for each finished node."""

from collections.abc import Mapping
from threading import Lock
from typing import Any

import click

from ciris_scoring.database.dbt import core, invoke, parse
from ciris_scoring.database.project import Project
from ciris_scoring.database.relations import PACKAGE, relations_of
from ciris_scoring.database.terminal import coloured, is_quiet, printable, say
from ciris_scoring.database.termination import is_interrupted
from ciris_scoring.database.variables import PREFIX

_SHOWN = {"success": "ok", "pass": "ok", "warn": "WARN", "fail": "FAIL", "error": "ERROR"}
_COLOURS = {"ok": "green", "skipped": "bright_black", "WARN": "yellow", "FAIL": "red", "ERROR": "red"}


class DbtBuild:
    """A project that is parsed once and can be built several times."""

    def __init__(self, project: Project):
        self.project = project
        self.manifest = parse(project)
        self.relations = relations_of(self.manifest, project.schema)

    def build(self, run_variables: Mapping[str, Any], full_refresh: bool = False) -> None:
        """Build and test the project. Unit tests are skipped, because their results do not depend on data.

        :param run_variables: dbt variables of this run, without their prefix, in addition to those of the command line.
        """
        command = [
            *("build", "--select", f"package:{PACKAGE}"),
            # Run all tests of this package, but no other project's tests of the marts.
            *("--indirect-selection", "empty"),
            *("--exclude-resource-type", "unit_test", "--exclude-resource-type", "exposure"),
            *(["--full-refresh"] if full_refresh else ()),
        ]
        variables = {
            **self.project.cli_vars,
            **{f"{PREFIX}{name}": value for name, value in run_variables.items()},
        }
        invoke(self.project, command, variables, manifest=self.manifest, callbacks=[_Progress()])


class _Progress:
    """Callback that prints progress. dbt calls it with every event, from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._finished = 0
        self._total = 0

    def __call__(self, event: Any) -> None:
        name, data = event.info.name, event.data
        if is_interrupted():
            return
        with self._lock:
            if name in ("LogStartLine", "SkippingDetails"):
                self._total = data.total
            # dbt's total number of nodes does not include ephemeral models.
            elif name == "NodeFinished" and data.node_info.materialized != "ephemeral":
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
        label = coloured(f"{status:<7}", fg=_COLOURS.get(status))
        note = f"  {printable(core(result.message))}" if status in ("WARN", "FAIL", "ERROR") else ""
        if note or not is_quiet():
            click.echo(f"  {count}  {label}  {result.execution_time:6.1f} s  {kind} {node.node_name}{note}", err=True)
