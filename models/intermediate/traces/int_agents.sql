{#- Every agent with a trace that counts, and when its first one was (section 1).
    Grain and key: agent. Nothing is null. -#}
select
    agent_id_hash,
    min(traced_at) as first_traced_at
from {{ ref('int_identity_events') }}
where is_first_trace
group by agent_id_hash
