{{ config(materialized='replace_range') }}
{#- Agents with a counted trace (scoring.md §1) and a permanent, unique label: the name of the first trace and the
    beginning of the hash. If several agents have the same name and the same beginning of the hash, all but the first
    get the whole hash and a number, as in "Link (4107c26fee8baae4 #2)". A hash can be any text, so "(" and "#" in it
    are replaced; otherwise two labels could be equal. Grain and key: agent. No column is null. -#}
with first_traces as (

    select distinct on (agent_id_hash)
        agent_id_hash,
        agent_name,
        translate(agent_id_hash, '(#', '__') as shown_hash,
        traced_at as first_traced_at
    from {{ ref('int_agent_events') }}
    where kind = 'first_trace'
    order by
        agent_id_hash asc,
        {{ oldest_first() }}

),

numbered as (

    select
        agent_id_hash,
        agent_name,
        shown_hash,
        first_traced_at,
        row_number() over (
            partition by agent_name, left(shown_hash, {{ constant('label_characters') }})
            order by first_traced_at, agent_id_hash collate "C"
        ) as namesake_number
    from first_traces

)

select
    agent_id_hash,
    first_traced_at,
    coalesce(agent_name || ' (', '(') || case
        when namesake_number = 1 then left(shown_hash, {{ constant('label_characters') }})
        else shown_hash || ' #' || namesake_number
    end || ')' as agent_label
from numbered
