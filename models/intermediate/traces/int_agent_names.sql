{#- Which name an agent bore when (scoring.md §1): from a trace that named it to the next that named it otherwise. At an
    as-of T it bears the name with named_from < T that did not end before T: named_until >= T, or null, if it bears it still.
    Grain: agent and naming. Key: identity_event_id. -#}
select
    identity_event_id,
    agent_id_hash,
    agent_name,
    traced_at as named_from,
    lead(traced_at) over (
        partition by agent_id_hash
        order by {{ oldest_first('identity_event_id') }}
    ) as named_until
from {{ ref('int_identity_events') }}
where is_first_name or is_identity_change
