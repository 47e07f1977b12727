"""The main job: build the first half, compute resilience, build the second half, show the fleet."""

import shlex
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import psycopg
from psycopg import sql

from ciris_scoring.basics import as_of as as_of_time
from ciris_scoring.basics.connection import LOST_HINT, connect, one_row
from ciris_scoring.basics.errors import DbtFailed, InputError
from ciris_scoring.basics.project import PREFIX, Project, find_project, load_project
from ciris_scoring.basics.run_lock import run_lock
from ciris_scoring.basics.terminal import printable
from ciris_scoring.basics.terminal import say as report
from ciris_scoring.job.backfill import plan_backfill, unfinished_run
from ciris_scoring.job.closing import Closing
from ciris_scoring.job.dbt_build import DbtBuild, Half
from ciris_scoring.job.rights import check_rights
from ciris_scoring.job.run_log import Attempt, logged
from ciris_scoring.job.unchanged import state_digest, unchanged_nodes
from ciris_scoring.steps.limits_step import first_waiting, run_limits_step
from ciris_scoring.steps.resilience_step import run_step
from ciris_scoring.steps.step import StepResult

SHOWN_MARTS = ("fct_factor_components", "fct_trace_verdicts", "fct_fleet_capacity")
NEXT_STEPS = """
The embedded PostgreSQL keeps running; `make stop` stops it.
  host      {server.socket_folder}
  port      {server.port}
  user      {server.user} (no password)
  database  {database}
  psql      {psql}
  dbt       dbt build --profiles-dir {profiles} --vars 'ciris_as_of: {as_of}'

What to look at next:

  -- What the lowest score of the fleet is made of
  select factor, component, component_value from {fct_factor_components}
  where agent_id_hash = '{agent}' and as_of = '{as_of}' and window_days = 7
  order by factor, component;

  -- The traces behind it that were overridden, unsafe, or not valid in the chain
  select traced_at, trace_id, is_overridden, is_unsafe, is_signature_verified, is_key_registered, is_link_valid
  from {fct_trace_verdicts}
  where agent_id_hash = '{agent}' and (is_overridden or is_unsafe or not is_chain_valid)
  order by traced_at desc limit 20;

  -- The fleet, day by day
  select as_of, n_agents, n_high_fragility, mean_capacity_score, min_capacity_score
  from {fct_fleet_capacity}
  where window_days = 7 order by as_of;"""


def run(
    project: Project,
    as_of: str | None,
    *,
    full_refresh: bool,
    allow_rescoring: bool,
    closing: Closing | None = None,
) -> datetime:
    """Run the whole job once and say at the end how the fleet stands; return the as-of that was scored.

    :param project: what to build, and where.
    :param as_of: the argument of ``--as-of``, if given.
    :param full_refresh: score the whole history again.
    :param allow_rescoring: even where scores are published.
    :param closing: what to do at the end. [default: print the fleet table]
    :raises CirisError: something expected went wrong; what was published before is as it was.
    """
    started = time.monotonic()
    closing = closing or Closing(Attempt("full_refresh" if full_refresh else "run"))
    attempt = closing.attempt
    attempt.as_of = moment = resolve_as_of(project, as_of)
    with logged(project, attempt), connect(project) as connection:
        closing.read_alerts(connection, project.relations)
        score(
            connection, project, moment, attempt, full_refresh=full_refresh, allow_rescoring=allow_rescoring
        )
    with connect(project) as connection:
        closing.show_fleet(connection, project.relations, moment)
        for line in _remarks(connection, project, moment):
            report(line)
    closing.hand_on(project)
    report(f"Done in {time.monotonic() - started:.0f} s.")
    return moment


def score(
    connection: psycopg.Connection,
    project: Project,
    moment: datetime,
    attempt: Attempt,
    *,
    full_refresh: bool = False,
    allow_rescoring: bool = False,
) -> StepResult:
    """Do the job itself, as of a period end, under the lock of a run; parameters and errors as in :func:`run`.

    :param attempt: is told the seconds of the parts.
    """
    check_rights(connection, project)
    with run_lock(connection, project.schema, report) as pid:
        report(
            f"Scoring {project.source_schema} into {project.marts_schema} as of {as_of_time.text(moment)}."
        )
        variables = {"as_of": as_of_time.text(moment), "lock_holder_pid": pid}
        if allow_rescoring:
            variables["allow_rescoring"] = True
        return _build_halves(connection, project, DbtBuild(project, variables, full_refresh), attempt)


def _build_halves(
    connection: psycopg.Connection, project: Project, build: DbtBuild, attempt: Attempt
) -> StepResult:
    unchanged = [] if build.full_refresh else unchanged_nodes(connection, project, attempt)
    with attempt.timed("first_half"):
        _build(build, "before_resilience", unchanged, connection)
    with attempt.timed("steps"):
        step = _run_steps(connection, project)
    connection.execute("select")  # the session lives, so the lock is still ours
    with attempt.timed("second_half"):
        _build(build, "after_resilience", unchanged, connection)
    attempt.state_digest = state_digest(connection, project)
    return step


def run_backfill(
    project: Project,
    first: str,
    last: str,
    *,
    step_days: int,
    allow_rescoring: bool,
    restart: bool,
    closing: Closing | None = None,
) -> None:
    """Score a closed range of as-ofs in steps, each a whole run, and print the fleet table of its last one.

    :param project: what to build, and where.
    :param first: the argument of ``--from``.
    :param last: the argument of ``--to``.
    :param step_days: days of traces per step.
    :param allow_rescoring: even where scores are published.
    :param restart: begin again where an earlier one of the same range stopped on its way.
    :param closing: what to do at the end. [default: print the fleet table]
    :raises CirisError: something expected went wrong; the steps before are published, the same command goes on.
    """
    started = time.monotonic()
    if project.variables.get("as_of") is not None:
        raise InputError(
            "--from and --to name the as-ofs, so the variable ciris_as_of has no meaning here.",
            "Leave it out.",
        )
    period = project.variables.get("scoring_period", "day")
    now = datetime.now(UTC)
    earliest = as_of_time.traces_from(project.variables)
    range_ = (
        as_of_time.resolve(first, period, now, "--from", earliest),
        as_of_time.resolve(last, period, now, "--to", earliest),
    )
    closing = closing or Closing(Attempt("backfill"))
    attempt = closing.attempt
    attempt.as_of = range_[1]
    with logged(project, attempt), connect(project) as connection:
        closing.read_alerts(connection, project.relations)
        check_rights(connection, project)
        with run_lock(connection, project.schema, report) as pid:
            build = DbtBuild(project, {"lock_holder_pid": pid})
            unfinished = unfinished_run(connection, project.relations)
            if unfinished is not None:
                moment = as_of_time.text(unfinished)
                report(f"The run as of {moment} did not end: it comes first.")
                variables = {"as_of": moment, "lock_holder_pid": pid}
                _build_halves(connection, project, build.with_variables(variables), attempt)
            backfill = plan_backfill(
                connection,
                project,
                *range_,
                step_days=step_days,
                allow_rescoring=allow_rescoring,
                restart=restart,
            )
            n_steps = len(backfill.steps)
            verb = "Going on with" if backfill.is_resumed else "Scoring"
            first_text, last_text = as_of_time.text(backfill.first), as_of_time.text(backfill.last)
            report(f"{verb} the as-ofs from {first_text} to {last_text}: {n_steps} steps.")
            for number, step in enumerate(backfill.steps, 1):
                report(f"Step {number} of {n_steps}: {step}.")
                variables = {
                    "as_of": as_of_time.text(step.as_of),
                    "lock_holder_pid": pid,
                    **backfill.variables(step),
                }
                full_refresh = backfill.is_from_nothing and number == 1
                _build_halves(
                    connection, project, build.with_variables(variables, full_refresh=full_refresh), attempt
                )
    with connect(project) as connection:
        closing.show_fleet(connection, project.relations, backfill.last)
    closing.hand_on(project)
    report(f"Done in {time.monotonic() - started:.0f} s.")


def _build(build: DbtBuild, half: Half, unchanged: Sequence[str], connection: psycopg.Connection) -> None:
    """Build one half; where it fails because the server has gone away, the hint is that."""
    try:
        build.build(half, unchanged)
    except DbtFailed as error:
        try:
            connection.execute("select")
        except psycopg.OperationalError:
            raise DbtFailed(error.message, LOST_HINT) from error
        raise


def run_embedded(
    project_dir: Path | None,
    cli_vars: dict[str, Any],
    as_of: str | None,
    *,
    full_refresh: bool,
    allow_rescoring: bool,
    closing: Closing,
) -> None:
    """Run the whole job on the embedded PostgreSQL, with the sample where it holds no traces.

    The as-of is the sample's, unless another is given, so that the numbers are the same every time.

    :raises CirisError: something expected went wrong.
    """
    from ciris_scoring.trial import embedded
    from ciris_scoring.trial.simulation.load import TargetHoldsTraces
    from ciris_scoring.trial.simulation.sample import load_sample, sample_info

    project_dir = find_project(project_dir)
    state_folder = project_dir / embedded.STATE_FOLDER
    server = embedded.start(state_folder)
    embedded.write_profile(state_folder, server)
    project = load_project(project_dir, state_folder, cli_vars=cli_vars)
    if as_of is None and project.variables.get("as_of") is None:
        as_of = sample_info()["as_of"]

    with connect(project) as connection:
        try:
            n_traces = load_sample(connection, project.source_schema, project.source_tables)
            report(f"Loaded the sample: {n_traces:,} traces in {project.source_schema}.")
        except TargetHoldsTraces as held:
            report(f"Using the {held.n:,} traces that are in {held.table}.")
    moment = run(project, as_of, full_refresh=full_refresh, allow_rescoring=allow_rescoring, closing=closing)
    if closing.for_machines:
        return
    with connect(project) as connection:
        agent = _lowest_agent(connection, project, moment)
    click.echo(
        NEXT_STEPS.format(
            server=server,
            database=embedded.DATABASE,
            psql=server.psql_command(),
            profiles=shlex.quote(str(_short(state_folder))),
            **{name: project.relations.places[name] for name in SHOWN_MARTS},
            agent=agent,
            as_of=as_of_time.text(moment),
        )
    )


def _lowest_agent(connection: psycopg.Connection, project: Project, moment: datetime) -> str:
    """Hash of the agent with the lowest capacity, for the example queries."""
    query = sql.SQL(
        "select agent_id_hash from {} where as_of = %s and window_days = 7"
        " order by capacity_score, agent_id_hash limit 1"
    ).format(project.relations["fct_capacity_scores"])
    row = connection.execute(query, [moment]).fetchone()
    return printable(row[0]) if row else "AGENT"


def _short(path: Path) -> Path:
    """The path as seen from here, where it lies below."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def resilience(project: Project) -> StepResult:
    """Run the Python steps alone, under the lock of a run.

    :raises CirisError: something expected went wrong; nothing was changed.
    """
    with connect(project) as connection, run_lock(connection, project.schema, report):
        return _run_steps(connection, project)


def _run_steps(connection: psycopg.Connection, project: Project) -> StepResult:
    """Compute R, then the intervals, and say what was done; return the numbers of R and the seconds of both."""
    since = first_waiting(connection, project.relations)
    resilience = run_step(connection, project.relations, since=since, report=report)
    _report_step("resilience", resilience)
    limits = run_limits_step(connection, project.relations, report=report)
    _report_step("intervals", limits)
    return resilience._replace(seconds=resilience.seconds + limits.seconds)


def _report_step(name: str, result: StepResult) -> None:
    report(
        f"{name}: {result.waiting:,} waiting, {result.written:,} written, {result.deleted:,} deleted "
        f"in {result.seconds:.1f} s"
    )


def resolve_as_of(project: Project, given: str | None) -> datetime:
    """The as-of of a run: ``--as-of``, or ``as_of`` in ``--vars``, or now; cut down to a period end.

    :raises InputError: both are given, or the time is malformed, in the future, or before the
        variable ciris_traces_from.
    """
    variable = project.variables.get("as_of")
    if given is not None and project.cli_vars.get(f"{PREFIX}as_of") is not None:
        raise InputError("The as-of is given twice, by --as-of and in --vars.", "Leave one of them out.")
    value, name = (variable, "The variable ciris_as_of") if given is None else (given, "--as-of")
    period = project.variables.get("scoring_period", "day")
    earliest = as_of_time.traces_from(project.variables)
    return as_of_time.resolve(value, period, datetime.now(UTC), name, earliest)


def _remarks(connection: psycopg.Connection, project: Project, moment: datetime) -> list[str]:
    """What a person may wonder about: sources that hold nothing, and what came too late for scores that are final."""
    empty = {
        "covenant_traces": f"no trace before {as_of_time.text(moment)}, so there is nothing to score",
        "wbd_deferrals": "no deferral, so the quality of deferrals counts as 1",
        "covenant_public_keys": "no key, so no signature is by a registered key",
    }
    remarks = []
    for name, meaning in empty.items():
        table = sql.Identifier(project.source_schema, project.source_tables[name])
        condition = sql.SQL('where "timestamp" < {}').format(sql.Literal(moment))
        query = sql.SQL("select exists (select 1 from {} {})").format(
            table, condition if name == "covenant_traces" else sql.SQL("")
        )
        if one_row(connection.execute(query)) == (False,):
            remarks.append(f"Note: {project.source_schema}.{project.source_tables[name]} holds {meaning}.")
    return remarks + _late_remarks(connection, project)


def _late_remarks(connection: psycopg.Connection, project: Project) -> list[str]:
    """What came too late for scores that are final, and the command that scores them again."""
    query = sql.SQL(
        """
        select
            coalesce(sum(n) filter (where issue = 'late_trace'), 0)::bigint,
            coalesce(sum(n) filter (where issue = 'late_key'), 0)::bigint,
            min(first_as_of),
            max(last_as_of)
        from {}
        """
    ).format(project.relations["fct_data_quality"])
    n_traces, n_keys, first, last = one_row(connection.execute(query))
    if first is None:
        return []
    first, last = as_of_time.text(first), as_of_time.text(last)
    return [
        f"Note: the scores as of {first} to {last} are not what they would be if they were made now (traces that came "
        f"late: {n_traces:,}; traces whose key was changed in hindsight: {n_keys:,}). To score them again: "
        f"ciris-scoring run --from {first} --to {last} --allow-rescoring"
    ]
