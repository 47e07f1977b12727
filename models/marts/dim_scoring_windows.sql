{#- Grain: one row per window. Waits for the gate. -#}
-- depends_on: {{ ref('int_capacity_scores') }}
select
    window_days,
    baseline_days,
    coherence_days
from {{ ref('scoring_windows') }}
