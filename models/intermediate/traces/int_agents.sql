{{ config(materialized='replace_range', meta={'rewritten': 'whole', 'keeps_views': true}) }}
{#- Every agent with a trace that counts, when its first one was (scoring.md §1), and a label that is the agent's alone
    and
    stays: the name that its first trace bore and the beginning of its hash; of agents that have both in common, the
    first one's, and the others' with the whole hash and a number. Grain and key: agent. Nothing is null. -#}
with identity_events as (

    select
        identity_event_id,
        agent_id_hash,
        agent_name,
        traced_at,
        audit_sequence_number,
        trace_id
    from {{ ref('int_identity_events') }}
    where is_first_trace

),

first_traces as (

    select distinct on (agent_id_hash)
        agent_id_hash,
        agent_name,
        traced_at as first_traced_at
    from identity_events
    order by
        agent_id_hash asc,
        {{ oldest_first('identity_event_id') }}

),

numbered as (

    select
        agent_id_hash,
        agent_name,
        first_traced_at,
        row_number() over (
            partition by agent_name, left(agent_id_hash, {{ label_characters() }})
            order by first_traced_at, agent_id_hash
        ) as namesake_number
    from first_traces

)

select
    agent_id_hash,
    first_traced_at,
    {{ agent_label('agent_id_hash', 'agent_name', 'namesake_number') }} as agent_label
from numbered
