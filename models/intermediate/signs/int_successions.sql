{#- Agents that came when another one of their name fell silent (certainty.md §5, new_identity): it sent its last trace
    in the 2 days before the agent's first one. Grain and key: the agent that came. silent_until: when the other one
    sent again; null until it does. -#}
with agent_names as materialized (

    select
        identity_event_id,
        agent_id_hash,
        agent_name,
        named_from,
        named_until
    from {{ ref('int_agent_names') }}

),

first_names as (

    select distinct on (agents.agent_id_hash)
        agents.agent_id_hash,
        agents.first_traced_at,
        agent_names.agent_name
    from {{ ref('int_agents') }} as agents
    inner join agent_names on agents.agent_id_hash = agent_names.agent_id_hash
    order by
        agents.agent_id_hash asc,
        agent_names.named_from asc,
        agent_names.identity_event_id asc

),

namesakes as materialized (

    select
        first_names.agent_id_hash,
        first_names.agent_name,
        first_names.first_traced_at,
        agent_names.agent_id_hash as predecessor,
        agent_names.identity_event_id
    from first_names
    inner join agent_names
        on
            first_names.agent_name = agent_names.agent_name
            and first_names.agent_id_hash <> agent_names.agent_id_hash
            and first_names.first_traced_at > agent_names.named_from
            and (agent_names.named_until is null or first_names.first_traced_at <= agent_names.named_until)

),

-- A period with traces before and after the first one of the other is no silence.
silences as (

    select
        namesakes.agent_id_hash,
        namesakes.agent_name,
        namesakes.first_traced_at,
        namesakes.predecessor,
        namesakes.identity_event_id,
        max(periods.last_traced_at) filter (where periods.last_traced_at < namesakes.first_traced_at) as silent_from,
        min(periods.first_traced_at) filter (where periods.first_traced_at >= namesakes.first_traced_at) as silent_until
    from namesakes
    inner join {{ ref('int_agent_periods') }} as periods on namesakes.predecessor = periods.agent_id_hash
    group by 1, 2, 3, 4, 5
    having
        not bool_or(
            periods.first_traced_at < namesakes.first_traced_at
            and periods.last_traced_at >= namesakes.first_traced_at
        )

)

-- Of several, the one that fell silent last.
select distinct on (agent_id_hash)
    agent_id_hash,
    agent_name,
    first_traced_at,
    predecessor,
    silent_from,
    silent_until
from silences
where silent_from >= first_traced_at - {{ days(2) }}
order by
    agent_id_hash asc,
    silent_from desc,
    identity_event_id asc
