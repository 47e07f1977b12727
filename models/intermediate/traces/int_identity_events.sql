{{
  config(
    materialized='replace_range',
    meta={'range': 'traced_at'},
    indexes=[{'columns': ['agent_id_hash', 'traced_at']}],
  )
}}
{#- Grain: one row per trace at which an agent appeared, was first named, or changed its name. -#}
select
    trace_verdict_id as identity_event_id,
    agent_id_hash,
    traced_at,
    period_start,
    audit_sequence_number,
    trace_id,
    is_first_trace,
    is_first_name,
    is_identity_change,
    agent_name,
    previous_agent_name
from {{ ref('int_trace_verdicts') }}
where
    {{ in_judged_range('traced_at') }}
    and (is_first_trace or is_first_name or is_identity_change)
