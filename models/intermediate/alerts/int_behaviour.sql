{{ config(materialized='replace_range', meta={'scored_range': 'as_of'}, indexes=[{'columns': ['as_of']}]) }}
{#- What the alert falling compares a later score with (certainty.md §4): the nine parts of behaviour of every scored
    row with their limits, as they are published. Kept, because the mart that has them stands behind the alerts.
    Grain and key: agent, as-of, window with a score. -#}
-- depends_on: {{ ref('int_scoring_run') }}
select
    agent_id_hash,
    as_of,
    window_days,
    score_status,
    unmeasured_components,
    {% for part in parts_of_behaviour() %}
    {{ part }},
    {{ part }}_low,
    {{ part }}_high{% if not loop.last %},{% endif %}
    {% endfor %}
from {{ ref('int_capacity_scores') }}
where capacity_score is not null
