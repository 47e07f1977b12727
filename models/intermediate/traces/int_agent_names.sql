{#- Names of an agent with their validity interval (scoring.md §1). The agent's name at the time T is the name with
    named_from < T and named_until >= T or null. Grain: agent and naming. Key: identity_event_id. -#}
select
    agent_event_id as identity_event_id,
    agent_id_hash,
    agent_name,
    traced_at as named_from,
    lead(traced_at) over (
        partition by agent_id_hash
        order by {{ oldest_first() }}
    ) as named_until
from {{ ref('int_agent_events') }}
where kind = 'name'
