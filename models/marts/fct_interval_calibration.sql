{{ config(materialized='replace_range', meta={'scored_range': 'as_of', 'also_replaced_by': ['as_of']}) }}
{#- What the limits at an as-of take from the fleet: the day-to-day correlation of each quantity, and the coefficient
    of variation of episodes (certainty.md §3). An increment redoes the as-ofs that the run has scored, and
    older ones that the Python step has computed since. Waits for the gate. Grain and key: as-of, window, where
    scores have limits. Nothing is null. -#}
-- depends_on: {{ ref('int_capacity_scores') }}
with fleet_values as (

    select
        as_of,
        window_days,
        n_agents,
        {% for quantity in quantities_with_correlation() %}
        {{ quantity }}_correlation,
        {% endfor %}
        episode_cv,
        z_worse,
        z_better,
        method_version,
        computed_at
    from {{ ref('int_interval_fleet_values') }}
    {%- set rewritten = in_scored_range('as_of') %}
    {% if is_incremental() %}
    where
        {{ rewritten }}
        or computed_at > (select coalesce(max(latest.computed_at), '-infinity') from {{ this }} as latest)
    {% endif %}

)

select
    {{ surrogate_key([epoch('as_of'), 'window_days']) }} as interval_calibration_id,
    as_of,
    window_days,
    n_agents,
    {% for quantity in quantities_with_correlation() %}
    {{ quantity }}_correlation,
    {% endfor %}
    episode_cv,
    z_worse,
    z_better,
    method_version,
    computed_at
from fleet_values
