{{ config(materialized='replace_view') }}
{#- Deferrals of known agents with their value, the evidence behind q_deferral (scoring.md §6). Grain and key:
    deferral_verdict_id, a row of wbd_deferrals. -#}
select
    deferrals.deferral_verdict_id,
    deferrals.agent_id_hash,
    deferrals.deferral_id,
    deferrals.created_at,
    deferrals.resolved_at,
    deferrals.status,
    deferrals.is_judged,
    deferrals.judged_from,
    deferrals.deferral_value::double precision as deferral_value,
    agents.agent_label
from {{ ref('int_deferral_verdicts') }} as deferrals
left join {{ ref('dim_agents') }} as agents on deferrals.agent_id_hash = agents.agent_id_hash
where deferrals.agent_id_hash is not null
