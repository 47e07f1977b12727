{{ config(materialized='replace_range', meta={'range': 'as_of'}) }}
{#- What the limits at an as-of take from the fleet: the day-to-day correlation of each quantity, and the coefficient
    of variation of episodes (certainty.md §3). Waits for the scores. Grain and key: as-of, window, where scores have
    limits. Nothing is null. -#}
-- depends_on: {{ ref('fct_capacity_scores') }}
-- The same in every row of an as-of and window.
select
    {{ surrogate_key([epoch('as_of'), 'window_days']) }} as interval_calibration_id,
    as_of,
    window_days,
    count(*)::integer as n_agents,
    {% for quantity in quantities_with_correlation() %}
    min({{ quantity }}_correlation) as {{ quantity }}_correlation,
    {% endfor %}
    min(episode_cv) as episode_cv,
    min(z_worse) as z_worse,
    min(z_better) as z_better,
    min(method_version) as method_version,
    min(computed_at) as computed_at
from {{ ref('int_windows') }}
where {{ in_scored_range('as_of') }}
group by
    as_of,
    window_days
