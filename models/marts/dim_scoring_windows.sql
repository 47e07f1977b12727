{{ config(materialized='replace_range', tags='ciris_static') }}
{#- The windows that scores look back over, each with its baseline and its memory of coherence (scoring.md §1, 5 and 7).
    Waits for the scores. Grain and key: window_days. Nothing is null. -#}
-- depends_on: {{ ref('fct_capacity_scores') }}
select
    window_days,
    baseline_days,
    coherence_days
from {{ ref('scoring_windows') }}
