{{ config(materialized='replace_range', meta={'range': 'as_of'}) }}
{#- Fleet values from which the confidence bounds at an as-of are computed: the correlation of each component between
    traces of one agent and day, and the coefficient of variation of episode durations (certainty.md §3). Built after
    the scores. Grain and key: as-of, window with bounds. No column is null. -#}
-- depends_on: {{ ref('fct_capacity_scores') }}
-- All rows of an as-of and window have the same fleet values, so min() returns them.
select
    {{ surrogate_key([epoch('as_of'), 'window_days']) }} as interval_calibration_id,
    as_of,
    window_days,
    count(*)::integer as n_agents,
    {% for rate in component_rows() | selectattr('is_rate') | map(attribute='component') %}
    min({{ rate }}_correlation) as {{ rate }}_correlation,
    {% endfor %}
    min(ece_correlation) as ece_correlation,
    {% for metric in constant('drift_metrics') %}
    min(delta_{{ metric }}_correlation) as delta_{{ metric }}_correlation,
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
