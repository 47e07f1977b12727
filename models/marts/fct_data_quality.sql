{{ config(indexes=[{'columns': ['agent_id_hash', 'period_start']}]) }}
{#- Grain: one row per agent (null: fleet), period (null: no finite time) and issue. Waits for the gate. -#}
-- depends_on: {{ ref('int_capacity_scores') }}
select
    data_quality_id,
    agent_id_hash,
    period_start,
    issue,
    n
from {{ ref('int_data_quality') }}
