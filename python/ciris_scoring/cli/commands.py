"""The command line `ciris-scoring`."""

import errno
import json
import os
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import click

from ciris_scoring.cli.options import (
    FOLDER,
    Number,
    Place,
    database_options,
    extra,
    fleet_options,
    project_dir_option,
)
from ciris_scoring.database import as_of as as_of_time
from ciris_scoring.database.terminal import accept_any_character, coloured, plural, printable, progress
from ciris_scoring.database.termination import interrupted_by_signals
from ciris_scoring.errors import INTERRUPTED, CirisError, InputError, one_line

# Importing dbt or pandas takes a second, so a module that imports them is imported only in the commands that need it.

UNUSABLE_PATH = (errno.ENAMETOOLONG, errno.ELOOP)
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Commands(click.Group):
    """Group of commands that prints an expected error as a line and a hint on stderr, and exits with its code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        accept_any_character()
        try:
            with interrupted_by_signals():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            ctx.exit(INTERRUPTED)
        except CirisError as error:
            _end(ctx, error)
        except OSError as error:
            if error.errno in UNUSABLE_PATH:
                _end(ctx, InputError(f"{error.strerror}: {str(error.filename)[:60]!r}.", "Give another path."))
            if error.filename is not None or error.errno not in NO_ROOM:
                raise
            message = f"The output cannot be written: {error.strerror}."
            _end(ctx, CirisError(message, "Make room, or write elsewhere."))


def _end(ctx: click.Context, error: CirisError) -> NoReturn:
    click.echo(f"{coloured('Error:', fg='red', bold=True)} {printable(one_line(error.message))}", err=True)
    if error.hint:
        click.echo(f"{coloured('Hint:', fg='yellow')} {printable(one_line(error.hint))}", err=True)
    ctx.exit(error.exit_code)


PATH = click.Path(path_type=Path, allow_dash=True)
json_flag = click.option(
    "--json", "for_machines", is_flag=True, help="Print a JSON object with full precision instead of text."
)
nodes_option = click.option(
    "--from-node",
    "nodes",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Copy the new events of a node's own store first, a SQLite file such as ciris_engine.db. The node may be "
    "running. May be repeated: several nodes are one fleet.",
)
keys_option = click.option(
    "--keys",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    metavar="FILE",
    help='File of public keys: JSON {"KEY ID": "BASE64"}, or CSV with key_id and public_key_base64. May be repeated.',
)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="ciris-scoring")
def main() -> None:
    """Score a fleet of agents from their signed traces: the CIRIS Capacity Score on PostgreSQL.

    The dbt profile `ciris_scoring` names the database. `ciris-scoring init` writes a profile to fill in. With
    --embedded, no profile is needed: the database is a PostgreSQL that comes with the package.

    Progress is written to stderr, results to stdout. The exit code is 0 on success, 1 if the command failed, and 2 if
    the command line, the profile or a value was wrong and nothing was started.
    """


@main.command()
@click.option(
    "--as-of",
    metavar="TIME",
    help="Score only traces before this time, in ISO 8601; UTC if it has no offset. It is rounded down to the end of "
    "a day, or of an hour in hourly scoring. [default: now]",
)
@click.option("--full-refresh", is_flag=True, help="Score the whole history again.")
@click.option(
    "--allow-rescoring",
    is_flag=True,
    help="Allow --full-refresh, or the variable ciris_rescore_from, to replace published scores.",
)
@click.option(
    "--from-batches",
    "batches",
    type=PATH,
    multiple=True,
    help="Load this file or folder of raw batches into the PostgreSQL that comes with the package, and score them "
    "there. May be repeated.",
)
@nodes_option
@keys_option
@click.option(
    "--report",
    "report_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the report of `ciris-scoring report` to this file at the end.",
)
@click.option(
    "--notify",
    "addresses",
    multiple=True,
    metavar="URL",
    envvar="CIRIS_NOTIFY",
    help="Send the news since the last run to this address: new and closed alerts, changed verdicts, a failed or "
    "refused run. The address of a webhook gets JSON with a member `text`, as Slack and Mattermost read it. May be "
    "repeated. [default: the addresses in $CIRIS_NOTIFY, separated by spaces]",
)
@click.option("--notify-test", is_flag=True, help="Send a test message to --notify, and do nothing else.")
@json_flag
@database_options
def run(
    as_of: str | None,
    full_refresh: bool,
    allow_rescoring: bool,
    batches: tuple[Path, ...],
    nodes: tuple[Path, ...],
    keys: tuple[Path, ...],
    report_file: Path | None,
    addresses: tuple[str, ...],
    notify_test: bool,
    for_machines: bool,
    place: Place,
) -> None:
    """Score the fleet, publish the marts, print the fleet table.

    A run scores the as-ofs since the last run, and scores the as-ofs in the restatement window again. It stops at the
    first failing model or test, before it changes the marts. If another run on the same target is active, a run waits a
    few seconds, then stops. With --json, the JSON object is printed even if the run fails.

    \b
    Examples:
      ciris-scoring run --embedded                   # the sample, without a database of your own
      ciris-scoring run --as-of 2026-06-15           # reproducible: only traces before this time
      ciris-scoring run --target prod --vars '{ciris_source_schema: lens, ciris_scoring_period: hour}'
      ciris-scoring run --allow-rescoring --vars 'ciris_rescore_from: 2026-05-01'
      ciris-scoring run --from-node /var/lib/ciris/data/ciris_engine.db
      ciris-scoring run --from-batches traces/ --keys public_keys.json
      ciris-scoring run --json --notify https://chat.example.org/hook  # for a scheduler
    """
    if not notify_test:
        progress("Starting the run. dbt needs some seconds to start.")
    from ciris_scoring.cli.after_run import TEST, AfterRun
    from ciris_scoring.job import notify
    from ciris_scoring.job.run_log import RunRecord

    for number, address in enumerate(addresses, 1):
        notify.check_address(address, number)
    if notify_test:
        if not addresses:
            raise InputError("--notify-test has no address.", "Give --notify URL, or set CIRIS_NOTIFY.")
        sys.exit(0 if notify.send(addresses, TEST) else 1)
    record = RunRecord("full_refresh" if full_refresh else "run")
    after_run = AfterRun(record, report_file, for_machines, addresses)
    options = {"full_refresh": full_refresh, "allow_rescoring": allow_rescoring}
    with after_run.summed_up():
        cli_vars = place.cli_vars()
        if report_file is not None:
            from ciris_scoring.show.report import check_place

            if report_file == Path("-"):
                raise InputError(
                    "--report is '-', but a run prints its own table to stdout.",
                    "Name a file, or print the report afterwards: ciris-scoring report --output -",
                )
            check_place(report_file)
        if keys and not batches:
            raise InputError("--keys is only used with --from-batches.", "Leave it out, or give --from-batches.")
        if batches and nodes:
            raise InputError("--from-batches and --from-node are two sources.", "Leave out one of them.")
        if (batches or nodes) and (place.embedded or place.target or place.profiles_dir):
            raise InputError(
                "--from-batches and --from-node bring their own database, so they cannot be combined with "
                "--embedded, --target or --profiles-dir.",
                "Leave these options out, or load into the target: ciris-scoring load.",
            )
        if batches:
            with extra("audit,embedded"):
                from ciris_scoring.cli.run_from_batches import run_from_batches
            if not run_from_batches(batches, keys, place.project_dir, cli_vars, as_of, after_run, **options):
                sys.exit(2)
        elif nodes:
            from ciris_scoring.audit.node import copy_nodes
            from ciris_scoring.database.project import NODES_FOLDER

            with extra("embedded"):
                from ciris_scoring.lab import embedded
            project, _ = embedded.own_project(place.project_dir, NODES_FOLDER, embedded.NODES_DATABASE, cli_vars)
            for copied in copy_nodes(project, nodes):
                progress(str(copied))
            after_run.run(project, as_of, **options)
            if not for_machines:
                click.echo(f"To read the scores, add --profiles-dir {os.path.relpath(project.profiles_dir)}")
        elif place.embedded:
            project = place.project()
            from ciris_scoring.cli.run_embedded import run_embedded

            run_embedded(project, as_of, after_run, **options)
        else:
            after_run.run(place.project(), as_of, **options)


@main.command()
@json_flag
@database_options
def check(for_machines: bool, place: Place) -> None:
    """Check whether the database is ready for a run.

    The answer has the faults that would stop a run; each source column with its type and the type as which it is read;
    numbers of rows with their first and last time; the scoring parameters; and the number of traces of each run kind
    that a run would read. Nothing is written to the database. The exit code is 1 if something would stop a run.

    \b
    Examples:
      ciris-scoring check --target prod --json | jq '.faults'
    """
    from ciris_scoring.job.check import check as look
    from ciris_scoring.job.check import page
    from ciris_scoring.marts.marts import Marts
    from ciris_scoring.marts.verdict import threshold_remarks

    project = place.project()
    threshold = project.variables.get("verdict_threshold")
    fitness = look(project, lambda *published: threshold_remarks(Marts(*published), threshold))
    facts = {"exit_code": int(bool(fitness.faults)), **asdict(fitness)}
    click.echo(json.dumps(facts, indent=2, ensure_ascii=False) if for_machines else page(fitness))
    sys.exit(bool(fitness.faults))


as_of_option = click.option("--as-of", metavar="TIME", help="As-of of the scores. [default: the newest]")
window_option = click.option(
    "--window-days",
    type=click.IntRange(min=1),
    help="Window in days. [default: that of the first permission, or else the shortest]",
)
threshold_option = click.option(
    "--threshold",
    type=Number(0, 1),
    help="Steady score that the permission requires. [default: the threshold of the published verdicts]",
)
permission_option = click.option(
    "--permission",
    metavar="NAME",
    help="Permission in permissions.csv, instead of --threshold and --window-days. [default: the first in the file]",
)


@main.command()
@click.argument("agent")
@as_of_option
@window_option
@click.option("--since", metavar="TIME", help="Compare also with the score at this as-of.")
@threshold_option
@permission_option
@json_flag
@database_options
def explain(
    agent: str,
    as_of: str | None,
    window_days: int | None,
    since: str | None,
    threshold: float | None,
    permission: str | None,
    for_machines: bool,
    place: Place,
) -> None:
    """Explain the published score of an agent.

    The page has the verdict, the loss components, what changed, and the traces that cost most. AGENT is the agent's
    hash, the beginning of its hash, its present name or a former one, or a label such as "Link (4107c26f)". If AGENT
    matches several agents, they are listed. "hash:" before a whole hash selects the agent with this hash. The command
    only reads the marts.

    \b
    Examples:
      ciris-scoring explain 4107c26f --as-of 2026-06-14 --window-days 30
      ciris-scoring explain Link --since 2026-06-01 --json
    """
    from ciris_scoring.show.explain import page, read_explanation
    from ciris_scoring.show.formats import json_text

    project = place.published()
    explanation = read_explanation(project, agent, as_of, window_days, since, threshold, permission)
    click.echo(json_text(explanation) if for_machines else page(explanation))


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON object with full precision instead of a table."
)
csv_option = click.option("--csv", "as_csv", is_flag=True, help="Print CSV with full precision instead of a table.")


def form_of(*, as_json: bool, as_csv: bool) -> str | None:
    """Return the form of a table: json, csv, or None for text."""
    if as_json and as_csv:
        raise click.UsageError("--json and --csv cannot be given together.")
    return "json" if as_json else "csv" if as_csv else None


def print_table(text: str, form: str | None) -> None:
    """Print a table. CSV on a terminal has no characters that move the cursor or hide text."""
    if form == "csv" and sys.stdout.isatty():
        text = "".join(f"{printable(line)}\n" for line in text.splitlines())
    click.echo(text, nl=form != "csv")


@main.command()
@as_of_option
@window_option
@threshold_option
@permission_option
@json_option
@csv_option
@database_options
def fleet(
    as_of: str | None,
    window_days: int | None,
    threshold: float | None,
    permission: str | None,
    as_json: bool,
    as_csv: bool,
    place: Place,
) -> None:
    """Show the published scores of all agents with their verdicts. Agents that need attention come first.

    \b
    Categories of the capacity score:
      High Fragility     below 0.3: immediate intervention required
      Moderate Capacity  below 0.6: low-stakes tasks with human review
      Healthy Capacity   below 0.85: standard autonomous operation
      High Capacity      from 0.85 on: eligible for expanded autonomy

    \b
    Verdicts on a permission, the first that is true:
      withhold  take away, or do not give
      suspend   stop what it may do until somebody has looked
      wait      give nothing yet
      review    look today; keep what it has, nothing new
      grant     give, or keep
      keep      leave as it is

    \b
    Examples:
      ciris-scoring fleet --as-of 2026-06-14 --window-days 30 --csv > fleet.csv
    """
    from ciris_scoring.show.tables import show_fleet

    form = form_of(as_json=as_json, as_csv=as_csv)
    print_table(show_fleet(place.published(), as_of, window_days, threshold, permission, form), form)


@main.command()
@as_of_option
@window_option
@json_option
@csv_option
@database_options
def alerts(as_of: str | None, window_days: int | None, as_json: bool, as_csv: bool, place: Place) -> None:
    """Show the alerts and red flags that are raised, since when, and which are new.

    \b
    Examples:
      ciris-scoring alerts --json | jq '.alerts[] | select(.since == .as_of)'
    """
    from ciris_scoring.show.tables import show_alerts

    form = form_of(as_json=as_json, as_csv=as_csv)
    print_table(show_alerts(place.published(), as_of, window_days, form), form)


@main.command()
@click.argument("folder", type=FOLDER, default=".")
def init(folder: Path) -> None:
    """Create the dbt project in FOLDER. [default: this folder]

    This is for installations without a checkout. The folder also gets a profile to fill in and an example schedule.

    \b
    Examples:
      ciris-scoring init && ciris-scoring run --embedded
      ciris-scoring init /srv/ciris-scoring
    """
    from ciris_scoring.cli.init import NEXT_STEPS
    from ciris_scoring.cli.init import init as unfold

    unfold(folder)
    click.echo(NEXT_STEPS.format(folder=folder.resolve()), nl=False)


@main.command()
@click.option(
    "--output",
    type=PATH,
    metavar="FILE",
    help="File to write; - for stdout. [default: ciris-report.html in this folder; stdout with --json]",
)
@window_option
@json_flag
@database_options
def report(output: Path | None, window_days: int | None, for_machines: bool, place: Place) -> None:
    """Write the published scores as one HTML file.

    You can keep the file, send it, or attach it to a CI job: it works offline. It has the fleet with verdicts, each
    agent with its history, alerts and red flags, and the parameters. If there are more than 500 agents, it has the 500
    that need attention most. An existing file is replaced only after the new file is complete.

    \b
    Examples:
      ciris-scoring report --window-days 30 --output reports/fleet.html
      ciris-scoring report --json | jq '.fleet'
    """
    from ciris_scoring.show import report as reports

    file = output or (Path("-") if for_machines else reports.DEFAULT_FILE)
    if str(file) != "-":
        reports.check_place(file)
    project = place.published()
    text = reports.report(project, window_days, json=for_machines)
    if str(file) == "-":
        click.echo(text.encode())
    else:
        reports.write(text, file)
        progress(f"The report is in {file}, {len(text.encode()) / 1000:,.0f} kB.")


@main.command()
@click.argument("paths", type=PATH, nargs=-1)
@nodes_option
@keys_option
@json_flag
@database_options
def load(
    paths: tuple[Path, ...],
    nodes: tuple[Path, ...],
    keys: tuple[Path, ...],
    for_machines: bool,
    place: Place,
) -> None:
    """Verify raw trace batches and load them, or copy the events of nodes.

    The batches are loaded into the source tables; missing tables are created. PATHS are files (.json or .jsonl, also
    with .gz), folders, or - for standard input. Traces that are already loaded are skipped, so an interrupted load can
    be repeated. Two loads at the same time are safe. A trace whose signature does not verify is loaded and marked;
    covenant_trace_verification gives the reason. Needs the extra audit, in a checkout of the repository: pip install
    '.[audit]'. The exit code is 2 if anything was rejected or did not verify; the rest is loaded.

    \b
    Examples:
      ciris-scoring load traces/ --keys public_keys.json
      zcat old/*.jsonl.gz | ciris-scoring load - --target prod
      ciris-scoring load --from-node /var/lib/ciris/data/ciris_engine.db --target prod
    """
    if bool(paths) == bool(nodes):
        raise InputError("load needs either PATHS or --from-node.", "See: ciris-scoring load --help")
    if nodes:
        from ciris_scoring.audit.node import as_json, copy_nodes

        copied = copy_nodes(place.project(), nodes)
        click.echo(as_json(copied) if for_machines else "\n".join(map(str, copied)))
        return
    with extra("audit"):
        from ciris_scoring.audit import load as loading

    summary = loading.load(place.project(), paths, keys)
    click.echo(loading.as_json(summary) if for_machines else "\n".join(loading.report(summary)))
    if not summary.is_clean:
        sys.exit(2)


@main.command("init-db")
@click.option("--print", "print_only", is_flag=True, help="Print the statements without connecting to a database.")
@database_options
def init_db(print_only: bool, place: Place) -> None:
    """Create the source tables that do not exist.

    They get the keys that `ciris-scoring load` needs. Needs the extra audit, in a checkout of the repository: pip
    install '.[audit]'.

    \b
    Examples:
      ciris-scoring init-db --print > sources.sql
    """
    with extra("audit"):
        from ciris_scoring.audit.store import create_tables, statements

    project = place.project()
    if print_only:
        for statement in statements(project):
            click.echo(f"{statement};")
    else:
        create_tables(project)


@main.command()
@click.argument("paths", type=PATH, nargs=-1, required=True)
@keys_option
@click.option(
    "--agent",
    help="Hash of the agent, the beginning of its hash, its name, or hash: and its whole hash. [default: all agents in "
    "the files]",
)
@click.option("--from", "first", metavar="TIME", help="Compare traces from this time on.")
@click.option("--to", "last", metavar="TIME", help="Compare traces before this time.")
@json_flag
@database_options
def audit(
    paths: tuple[Path, ...],
    keys: tuple[Path, ...],
    agent: str | None,
    first: str | None,
    last: str | None,
    for_machines: bool,
    place: Place,
) -> None:
    """Check the database against the raw batches in PATHS.

    Signatures are verified with the keys of --keys only. Every column is computed from the files and compared. Every
    difference is listed, trace by trace. Nothing in the database is changed.

    Needs the extra audit, in a checkout of the repository: pip install '.[audit]'. Exit code 0: traces and keys
    in the database agree with the files; 1: they differ; 2: they agree, but something in the files was rejected or did
    not verify. What was not compared is listed.

    \b
    Examples:
      ciris-scoring audit traces/ --keys public_keys.json --agent 3f764637 --from 2026-06-08 --to 2026-06-15 --json
    """
    with extra("audit"):
        from ciris_scoring.audit import compare

    window = (
        None if first is None else as_of_time.parse_time(first, "--from"),
        None if last is None else as_of_time.parse_time(last, "--to"),
    )
    project = place.project()
    result = compare.audit(project, paths, keys, agent, window)
    click.echo(compare.as_json(result) if for_machines else "\n".join(compare.page(result)))
    sys.exit(result.exit_code)


@main.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to serve on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Port to serve on; 0 for a free one.",
)
@click.option(
    "--no-auth",
    is_flag=True,
    help="Do not require an API key, even if other machines can reach the address or $CIRIS_API_KEY is set.",
)
@database_options
def serve(
    host: str,
    port: int,
    no_auth: bool,
    place: Place,
) -> None:
    """Serve the published scores as web pages and over HTTP.

    The server runs until it is stopped. The endpoints of the API are under /api/v1/scoring; /openapi.json describes
    them. The server only reads the marts, so give it a separate role that may only read. While the database cannot be
    reached, it answers 503.

    Needs the extra api, in a checkout of the repository: pip install '.[api]'. On an address that other machines can
    reach, it requires the API key in the environment variable CIRIS_API_KEY.

    \b
    Examples:
      ciris-scoring serve --embedded                 # the sample, after ciris-scoring run --embedded
      CIRIS_API_KEY=$(openssl rand -hex 32) ciris-scoring serve --host 0.0.0.0
    """
    with extra("api"):
        from ciris_scoring.show.api.app import serve as serve_scores
        from ciris_scoring.show.api.settings import settings_of

    settings = settings_of(host, port, no_auth)
    place.cli_vars()  # refuse invalid variables before --embedded starts PostgreSQL
    serve_scores(place.published(), settings)


@main.command()
@click.option("--delete", is_flag=True, help="Delete the data of the embedded PostgreSQL too.")
@project_dir_option
def stop(delete: bool, project_dir: Path | None) -> None:
    """Stop the embedded PostgreSQL.

    `run --embedded` and `run --from-batches` have started it.

    \b
    Examples:
      ciris-scoring stop
      ciris-scoring stop --delete      # the next run starts with the sample
    """
    from ciris_scoring.database.project import STATE_FOLDER, find_project

    with extra("embedded"):
        from ciris_scoring.lab import embedded

    state_folder = find_project(project_dir) / STATE_FOLDER
    stopped = embedded.stop(state_folder)
    if delete:
        embedded.delete(state_folder)
    click.echo("The embedded PostgreSQL has stopped." if stopped else "No embedded PostgreSQL is running here.")


@main.command()
@fleet_options(agents=20, days=45, traces_per_day=25.0)
@click.option("--end", metavar="TIME", help="End of the traces, a whole UTC hour. [default: today 00:00 UTC]")
@database_options
def simulate(agents: int, days: int, traces_per_day: float, seed: int, end: str | None, place: Place) -> None:
    """Write a simulated fleet into the source tables, for trials.

    Some agents are healthy. Others drift, have a broken chain or a revoked key, stay fragile, relapse, are
    overconfident, renamed, new or silent. Missing tables are created. If the table already has traces, nothing is
    written.

    \b
    Examples:
      ciris-scoring simulate --agents 50 --days 60 --seed 7
    """
    from ciris_scoring.database.connection import connect
    from ciris_scoring.lab.simulation.fleet import stream_fleet
    from ciris_scoring.lab.simulation.load import load_fleet

    project = place.project()
    now = datetime.now(UTC)
    moment = as_of_time.resolve(None, "day", now) if end is None else as_of_time.parse_time(end, "--end")
    fleet = stream_fleet(agents, days, traces_per_day, seed, moment)
    with connect(project, writes=True) as connection:
        n_traces = load_fleet(connection, fleet, project.source_schema, project.source_tables)
    click.echo(f"{plural(n_traces, 'trace')} of {plural(agents, 'agent')} are in {project.source_schema}.")
    click.echo(f"Score them with: ciris-scoring run --as-of {as_of_time.text(moment)}{place.words()}")


if __name__ == "__main__":
    main()
