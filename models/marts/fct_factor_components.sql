{{ config(materialized='replace_view') }}
{#- Components of each factor of a published score, for example d_identity and k_contradiction of C (scoring.md §3 to
    7), with their bounds: columns of fct_capacity_scores and fct_score_certainty as rows. Grain and key: agent, as-of,
    window, factor, component. The value of a drift metric is null with too few values; bounds and design effects are
    null for components that have none. -#}
with scores as (

    select
        agent_id_hash,
        as_of,
        window_days,
        {% for column in components() %}
        {{ column }}{% if not loop.last %},{% endif %}
        {% endfor %}
    from {{ ref('fct_capacity_scores') }}
    where score_status <> 'no_traces'

),

certainty as (

    select
        agent_id_hash,
        as_of,
        window_days,
        {% for column in component_bound_columns() %}
        {{ column }}{% if not loop.last %},{% endif %}
        {% endfor %}
    from {{ ref('fct_score_certainty') }}

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
    unpivoted.component_low,
    unpivoted.component_high,
    unpivoted.design_effect
from scores
left join certainty
    on
        scores.agent_id_hash = certainty.agent_id_hash
        and scores.as_of = certainty.as_of
        and scores.window_days = certainty.window_days
cross join lateral (
    values
    {% for row in component_rows() if row.component_words %}
    {%- set name = row.component %}
    (
        '{{ row.factor }}',
        '{{ name }}',
        scores.{{ name }}::double precision,
        {{ 'certainty.' ~ name ~ '_low' if row.has_interval else 'null::double precision' }},
        {{ 'certainty.' ~ name ~ '_high' if row.has_interval else 'null::double precision' }},
        {{ 'certainty.' ~ name ~ '_design_effect' if row.has_design_effect else 'null::double precision' }}
    ){% if not loop.last %},{% endif %}
    {% endfor %}
) as unpivoted (factor, component, component_value, component_low, component_high, design_effect)
