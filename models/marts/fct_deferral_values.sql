{{ config(materialized='replace_view') }}
{#- Deferrals of known agents with their value, the evidence behind q_deferral (scoring.md §6). Grain and key:
    deferral_value_id, a row of wbd_deferrals. -#}
with deferrals as (

    select
        deferral_value_id,
        agent_id_hash,
        deferral_id,
        created_at,
        resolved_at,
        status,
        is_judged,
        judged_from,
        deferral_value::double precision as deferral_value
    from {{ ref('int_deferral_values') }}
    where agent_id_hash is not null

),

agents as (

    select
        agent_id_hash,
        agent_label
    from {{ ref('dim_agents') }}

)

select
    deferrals.deferral_value_id,
    deferrals.agent_id_hash,
    deferrals.deferral_id,
    deferrals.created_at,
    deferrals.resolved_at,
    deferrals.status,
    deferrals.is_judged,
    deferrals.judged_from,
    deferrals.deferral_value,
    agents.agent_label
from deferrals
left join agents on deferrals.agent_id_hash = agents.agent_id_hash
