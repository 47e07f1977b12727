{{ config(materialized='replace_range') }}
{#- Scoring windows with their baseline and the lookback horizon of coherence (scoring.md §1, 5 and 7). Grain and key:
    window_days. No column is null. -#}
-- depends_on: {{ ref('int_scoring_run') }}
select
    window_days,
    baseline_days,
    coherence_days
from {{ ref('scoring_windows') }}
