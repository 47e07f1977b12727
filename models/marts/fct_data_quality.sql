{{
  config(
    materialized='replace_range',
    meta={'rewritten': 'whole'},
    indexes=[{'columns': ['agent_id_hash', 'period_start']}],
  )
}}
{#- How often each repair and refusal of scoring.md §2 to 9 was met, and what the ingestion counted (scoring.md §8).
    Waits for the gate. Grain and key: agent (null: the fleet, or nobody), period_start (null: no finite time), issue. n
    is never null; first_as_of and last_as_of are null but for late_trace and late_key. -#}
-- depends_on: {{ ref('int_capacity_scores') }}
select
    data_quality_id,
    agent_id_hash,
    period_start,
    issue,
    n,
    first_as_of,
    last_as_of
from {{ ref('int_data_quality') }}
