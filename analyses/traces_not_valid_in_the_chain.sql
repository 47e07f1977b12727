select
    traced_at,
    trace_id,
    is_signature_verified,
    is_key_registered,
    is_link_valid
from {{ ref('fct_trace_checks') }}
where
    agent_id_hash = 'cabddd70814e3253' -- the agent Latch of the sample
    and is_counted and not is_chain_valid
order by traced_at
