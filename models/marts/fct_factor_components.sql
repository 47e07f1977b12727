{{ config(materialized='view', pre_hook="{{ replace_kept_view() }}") }}
{#- What each factor of a published score is made of: d_identity and k_contradiction of C, i_chain, i_coverage and
    i_replay of I_int, and so on (scoring.md §3 to 7). Scores are written before their components; meanwhile a score
    that was made anew has none. Grain and key: agent, as-of, window, factor, component. A drift metric is null with
    too few values; limits and design effects where there are none. -#}
with scores as (

    select
        agent_id_hash,
        as_of,
        window_days,
        scored_at
    from {{ ref('fct_capacity_scores') }}

),

components as (

    select
        agent_id_hash,
        as_of,
        window_days,
        {% for component in components() %}
        {{ component }},
        {% endfor %}
        {% for column in component_limit_columns() %}
        {{ column }},
        {% endfor %}
        scored_at
    from {{ ref('int_published_components') }}

),

published as (

    select components.*
    from components
    inner join scores
        on
            components.agent_id_hash = scores.agent_id_hash
            and components.window_days = scores.window_days
            and components.as_of = scores.as_of
            and components.scored_at >= scores.scored_at

)

select
    {{ surrogate_key([
        'published.agent_id_hash', epoch('published.as_of'), 'published.window_days', 'unpivoted.factor',
        'unpivoted.component',
    ]) }} as factor_component_id,
    published.agent_id_hash,
    published.as_of,
    published.window_days,
    unpivoted.factor,
    unpivoted.component,
    unpivoted.component_value,
    unpivoted.component_low,
    unpivoted.component_high,
    unpivoted.design_effect
from published
cross join lateral (
    values
    {% for factor, names in components_by_factor().items() %}
    {%- set is_last_factor = loop.last -%}
    {% for name in names %}
    {%- set has_limits, has_effect = name in components_with_limits(), name in components_with_design_effect() %}
    (
        '{{ factor }}',
        '{{ name }}',
        published.{{ name }}::double precision,
        {{ 'published.' ~ name ~ '_low' if has_limits else 'null::double precision' }},
        {{ 'published.' ~ name ~ '_high' if has_limits else 'null::double precision' }},
        {{ 'published.' ~ name ~ '_design_effect' if has_effect else 'null::double precision' }}
    )
    {%- if not (is_last_factor and loop.last) %},{% endif %}
    {% endfor %}
    {% endfor %}
) as unpivoted (factor, component, component_value, component_low, component_high, design_effect)
