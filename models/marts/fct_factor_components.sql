{{ config(materialized='replace_view') }}
{#- What each factor of a published score is made of: d_identity and k_contradiction of C, i_chain, i_coverage and
    i_replay of I_int, and so on (scoring.md §3 to 7): the columns of fct_capacity_scores as rows. Grain and key: agent,
    as-of, window, factor, component. A drift metric is null with too few values; limits and design effects where there
    are none. -#}
with scores as (

    select
        agent_id_hash,
        as_of,
        window_days,
        {% for column in components() + component_limit_columns() %}
        {{ column }}{% if not loop.last %},{% endif %}
        {% endfor %}
    from {{ ref('fct_capacity_scores') }}

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
cross join lateral (
    values
    {% for factor, names in components_by_factor().items() %}
    {%- set is_last_factor = loop.last -%}
    {% for name in names %}
    {%- set has_limits, has_effect = name in components_with_limits(), name in components_with_design_effect() %}
    (
        '{{ factor }}',
        '{{ name }}',
        scores.{{ name }}::double precision,
        {{ 'scores.' ~ name ~ '_low' if has_limits else 'null::double precision' }},
        {{ 'scores.' ~ name ~ '_high' if has_limits else 'null::double precision' }},
        {{ 'scores.' ~ name ~ '_design_effect' if has_effect else 'null::double precision' }}
    )
    {%- if not (is_last_factor and loop.last) %},{% endif %}
    {% endfor %}
    {% endfor %}
) as unpivoted (factor, component, component_value, component_low, component_high, design_effect)
