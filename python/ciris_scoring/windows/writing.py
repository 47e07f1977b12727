"""Write the rows of a Python model into the temporary table that the model's query reads."""

from collections.abc import Mapping, Sequence

from psycopg import sql

from ciris_scoring.windows.inputs import Columns, Places
from ciris_scoring.windows.reading import NUMBERED_AGENTS, BlockReader
from ciris_scoring.windows.session import Numbers, types_of
from ciris_scoring.windows.setting import Setting

FINISHED = sql.SQL("""
            select
                numbers.*, agents.agent_id_hash,
                -- The period is in hours, because adding a day depends on the session's time zone.
                agents.origin + numbers.as_of_number * {hours} * interval '1 hour' as as_of,
                ({window_days}::int4[])[numbers.window_number + 1] as window_days
            from pg_temp.ciris_rows as numbers
            inner join pg_temp.ciris_agents as agents using (agent_number)
""")


def add_agents(reader: BlockReader) -> None:
    """Insert the agents of a block into ``ciris_agents``. Agents of different blocks have different numbers."""
    reader.session.execute(
        sql.SQL("""
        create temporary table if not exists ciris_agents (
            agent_number int8, agent_id_hash text, origin timestamptz
        ) on commit drop;
        insert into ciris_agents select agent_number + %(first)s, agent_id_hash, %(origin)s from {}
        """).format(NUMBERED_AGENTS),
        {"first": reader.first_number, "origin": reader.block.origin, "agents": reader.agents},
    )


def add_rows(reader: BlockReader, agents: range, places: Places, columns: Columns) -> dict[str, Numbers]:
    """Insert the rows of some agents into ``ciris_rows``; NaN stands for null.

    :param agents: positions of the agents in the list of the block's agents.
    :param places: rows whose agents are numbered from 0.
    :returns: types of the columns.
    """
    keys = {
        "agent_number": places.agent + reader.first_number + agents.start,
        "as_of_number": places.as_of,
        "window_number": places.window,
    }
    reader.session.write_numbers("ciris_rows", keys | columns)
    return types_of(columns)


def finished_rows(setting: Setting) -> sql.Composed:
    """Return the query of the written rows with their keys."""
    return FINISHED.format(
        hours=sql.Literal(24 // setting.periods_per_day),
        window_days=sql.Literal([window.window_days for window in setting.windows]),
    )


def values_of(types: Mapping[str, Numbers], names: Mapping[str, Sequence[str]]) -> sql.Composed:
    """Return the columns of ``finished``, with null in place of NaN.

    :param types: types of the columns, as returned by :func:`add_rows`.
    :param names: lists of names, by column. The column is computed as a position in its list, and −1 stands for null.
    """

    def value(name: str, kind: Numbers) -> sql.Composed:
        column = sql.Identifier("finished", name)
        if name in names:
            return sql.SQL("({}::text[])[{} + 1]").format(sql.Literal("{" + ",".join(names[name]) + "}"), column)
        if kind.type == "int8":
            return sql.SQL("{}").format(column)
        return sql.SQL("nullif({}, 'NaN')" if kind.length is None else "array_replace({}, 'NaN', null)").format(column)

    return sql.SQL(", ").join(
        sql.SQL("{} as {}").format(value(name, kind), sql.Identifier(name)) for name, kind in types.items()
    )
