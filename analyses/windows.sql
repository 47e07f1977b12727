select
    window_days,
    baseline_days,
    coherence_days
from {{ ref('dim_scoring_windows') }}
order by window_days
