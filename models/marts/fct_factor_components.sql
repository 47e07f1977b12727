{{ config(materialized='replace_view') }}
{#- Components of each factor of a published score, for example d_identity and k_contradiction of C (scoring.md §3 to
    7): columns of fct_capacity_scores as rows. Grain and key: agent, as-of, window, factor, component. The value of a
    drift metric is null with too few values. -#}
with scores as (

    select
        agent_id_hash,
        as_of,
        window_days,
        agent_label,
        {% for column in components() %}
        {{ column }}{% if not loop.last %},{% endif %}
        {% endfor %}
    from {{ ref('fct_capacity_scores') }}
    where score_status <> 'no_traces'

)

select
    {{ surrogate_key([
        'scores.agent_id_hash', epoch('scores.as_of'), 'scores.window_days', 'unpivoted.factor',
        'unpivoted.component',
    ]) }} as factor_component_id,
    scores.agent_id_hash,
    scores.as_of,
    scores.window_days,
    unpivoted.factor,
    unpivoted.component,
    unpivoted.component_value,
    scores.agent_label
from scores
cross join lateral (
    values
    {% for row in component_rows() if row.component_words %}
    ('{{ row.factor }}', '{{ row.component }}', scores.{{ row.component }}::double precision)
    {%- if not loop.last %},{% endif %}

    {% endfor %}
) as unpivoted (factor, component, component_value)
