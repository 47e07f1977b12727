"""Settings and variables that a root dbt project sets for this package.

In the dbt_project.yml of a root project, a setting overrides the setting of the package. A setting without a package's
name (``models: +materialized: table``) applies to the nodes of all packages. Macros cannot find out where a setting is
written, so this module finds it out.
"""

import difflib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from typing import Any

from ciris_scoring.basics.errors import shown
from ciris_scoring.basics.relations import PACKAGE

_SECTIONS = {"model": "models", "seed": "seeds", "test": "data_tests"}
"""Sections of dbt_project.yml, by the types of nodes that store data or can block a run."""
_HARMLESS = {
    *("access", "docs", "grants", "group", "meta", "packages", "persist_docs", "quote_columns"),
    *("static_analysis", "tags"),
    # dbt's own materialization "incremental" reads these settings; the package's materializations do not.
    *("batch_size", "begin", "concurrent_batches", "incremental_strategy", "lookback"),
    *("on_configuration_change", "on_schema_change", "unique_key"),
}
"""Settings that change neither the stored data nor whether a test blocks a run."""
_READ_BUT_UNDECLARED = {"sql_header", "submission_method"}
"""Settings that dbt or an adapter reads, but that dbt's classes do not declare."""
_META_OF_MACROS = {"range", "package_version"}
"""Keys of ``meta`` that the package's materializations and checks read."""
_OPTIONAL = {"dim_days", "permissions"}
"""Model and seed that a root project may disable."""


def overrides(config: Any, manifest: Any) -> list[str]:
    """Return a message for each setting that a root project must not have for nodes of this package.

    :param config: dbt's RuntimeConfig of the root project.
    :param manifest: dbt's manifest of all packages.
    """
    if config.project_name == PACKAGE:
        return []
    found: dict[tuple[str, str, str], list[str]] = {}
    for node in _nodes(manifest):
        section = _SECTIONS[str(node.resource_type)]
        known = _settings_of(node, config)
        for path, setting, value in _settings_given(config, section, node):
            if setting not in known or _may_set(setting, value, bool(path), node, config):
                continue
            written = f"+{setting.replace('_hook', '-hook')}"
            remedy = (
                "Take it out."
                if path
                else f"Write it below the project's own name: {section}: {config.project_name}: {written}."
            )
            override = (": ".join([section, *path, written]), shown(value), remedy)
            found.setdefault(override, []).append(f"{node.resource_type} {node.name}")
    return [
        f"{place} is {value} in the root project, which changes {nodes[0]}"
        f"{f' and {len(nodes) - 1} more nodes' if len(nodes) > 1 else ''} of ciris_scoring. {remedy}"
        for (place, value, remedy), nodes in found.items()
    ]


def unknown_variables(config: Any, known: Collection[str]) -> dict[str, str | None]:
    """Return given variables that look like the package's but do not exist, each with the most similar known name."""
    variables = config.vars.to_dict()
    scoped = variables.get(PACKAGE)
    given = [*variables, *(scoped if isinstance(scoped, Mapping) else ()), *config.cli_vars]
    return {
        name: next(iter(difflib.get_close_matches(_as_ours(name), known, n=1)), None)
        for name in dict.fromkeys(map(str, given))
        if name not in known and _as_ours(name).startswith("ciris_") and name != PACKAGE
    }


def _as_ours(name: str) -> str:
    return name.strip().lower().replace("-", "_")


def _nodes(manifest: Any) -> Iterator[Any]:
    """Yield the nodes of the package that store data or block a run; nodes of the marts come first."""
    disabled = (node for nodes in manifest.disabled.values() for node in nodes)
    ours = [
        node
        for node in [*manifest.nodes.values(), *disabled]
        if node.package_name == PACKAGE and str(node.resource_type) in _SECTIONS
    ]
    yield from sorted(ours, key=lambda node: ("marts" not in node.fqn, node.unique_id))


def _settings_of(node: Any, config: Any) -> set[str]:
    from dbt.adapters.factory import get_config_class_by_name

    classes = (type(node.config), get_config_class_by_name(config.credentials.type))
    return {field.name for kind in classes for field in fields(kind)} | _READ_BUT_UNDECLARED


def _settings_given(config: Any, section: str, node: Any) -> Iterator[tuple[list[str], str, Any]]:
    """Yield the path, the name and the value of each setting of the root project for a node."""
    level: Any = getattr(config, section)
    path: list[str] = []
    for name in (None, *node.fqn):
        if name is not None:
            level = level.get(name)
            path = [*path, name]
        if not isinstance(level, Mapping):
            return
        for key, value in level.items():
            if key.startswith("+") or not isinstance(value, Mapping):
                setting = key.removeprefix("+").strip().replace("-", "_")
                yield path, {"dbname": "database"}.get(setting, setting), value


def _may_set(setting: str, value: Any, is_scoped: bool, node: Any, config: Any) -> bool:
    is_test = str(node.resource_type) == "test"
    if setting == "meta":
        return not isinstance(value, Mapping) or value.keys().isdisjoint(_META_OF_MACROS)
    if setting == "enabled":
        return value is True or node.name in _OPTIONAL
    if setting == "full_refresh":
        # A full refresh keeps the log of runs. The macro check_full_refresh checks the other nodes.
        return node.name != "int_runs" or value is False
    if setting == "database":
        return bool(value == config.credentials.database)
    if setting in ("schema", "alias"):
        return is_scoped and not is_test
    return setting in _HARMLESS
