{#- The sign new_identity (certainty.md §5): the agent's first trace lies in the window, and another agent of its
    name sent its last one in the 2 days before, and nothing since, for a day or more at T.
    Grain: agent, as-of and window where the sign is raised. value: hours between the two traces. Nothing is null. -#}
with arrivals as (

    select
        agent_id_hash,
        first_traced_at
    from {{ ref('int_agents') }}
    where
        first_traced_at >= {{ windows_from() }}
        and first_traced_at < {{ as_of() }}

),

agent_names as (

    select
        identity_event_id,
        agent_id_hash,
        agent_name,
        named_from,
        named_until
    from {{ ref('int_agent_names') }}

),

first_names as (

    select distinct on (arrivals.agent_id_hash)
        arrivals.agent_id_hash,
        arrivals.first_traced_at,
        agent_names.agent_name
    from arrivals
    inner join agent_names on arrivals.agent_id_hash = agent_names.agent_id_hash
    order by
        arrivals.agent_id_hash asc,
        agent_names.named_from asc,
        agent_names.identity_event_id asc

),

-- From the last trace of a period to the agent's next one; without end, if there is none yet.
silences as (

    select
        agent_id_hash,
        last_traced_at as silent_from,
        lead(first_traced_at) over (partition by agent_id_hash order by period_start) as silent_until
    from {{ ref('int_agent_periods') }}
    where
        period_start >= {{ windows_from() }} - {{ days(4) }}
        and period_start < {{ as_of() }}

),

-- Of several, the one that fell silent last.
successions as (

    select distinct on (first_names.agent_id_hash)
        first_names.agent_id_hash,
        first_names.agent_name,
        first_names.first_traced_at,
        namesakes.agent_id_hash as predecessor,
        silences.silent_from,
        silences.silent_until
    from first_names
    inner join agent_names as namesakes
        on
            first_names.agent_name = namesakes.agent_name
            and first_names.agent_id_hash <> namesakes.agent_id_hash
            and first_names.first_traced_at > namesakes.named_from
            and (namesakes.named_until is null or first_names.first_traced_at <= namesakes.named_until)
    inner join silences
        on
            namesakes.agent_id_hash = silences.agent_id_hash
            and first_names.first_traced_at > silences.silent_from
            and first_names.first_traced_at <= silences.silent_from + {{ days(2) }}
            and (silences.silent_until is null or first_names.first_traced_at <= silences.silent_until)
    order by
        first_names.agent_id_hash asc,
        silences.silent_from desc,
        namesakes.identity_event_id asc

),

signs as (

    select
        scored_windows.agent_id_hash,
        scored_windows.as_of,
        scored_windows.window_days,
        successions.agent_name,
        successions.predecessor,
        (extract(epoch from successions.first_traced_at - successions.silent_from) / 3600)::double precision as hours
    from {{ ref('int_window_sums') }} as scored_windows
    inner join successions
        on
            scored_windows.agent_id_hash = successions.agent_id_hash
            and scored_windows.window_start <= successions.first_traced_at
            and scored_windows.as_of > successions.first_traced_at
            and scored_windows.as_of >= successions.silent_from + {{ days(1) }}
            and (successions.silent_until is null or scored_windows.as_of <= successions.silent_until)
    where {{ in_scored_range('scored_windows.as_of') }}

)

select
    agent_id_hash,
    as_of,
    window_days,
    'new_identity' as sign,
    hours as value,
    format(
        'First trace %s hours after %s of the same name (%s) fell silent.',
        round(hours::numeric, 1), left(predecessor, 64), left(agent_name, 64)
    ) as message
from signs
