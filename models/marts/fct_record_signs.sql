{{
  config(
    materialized='replace_range',
    meta={'range': 'as_of'},
    indexes=[{'columns': ['as_of', 'window_days']}, {'columns': ['agent_id_hash']}],
  )
}}
{#- The signs of a polished record that are raised beside a published score: a count or share, what it is compared
    with, and z, the distance in standard errors (certainty.md §5). Grain and key: agent, as-of,
    window, sign, field. field is null for signs of the whole record; comparison_value and z where there is nothing
    to compare with. -#}
with scores as (

    select
        agent_id_hash,
        agent_name,
        agent_label,
        as_of,
        window_days,
        scored_at
    from {{ rows_after_run('fct_capacity_scores') }}
    where {{ in_scored_range('as_of') }}

),

signs as (

    select
        record_sign_id,
        agent_id_hash,
        as_of,
        window_days,
        sign,
        field,
        value,
        comparison_value,
        compared_with,
        z,
        message
    from {{ ref('int_record_signs') }}

)

select
    signs.record_sign_id,
    signs.agent_id_hash,
    scores.agent_name,
    signs.as_of,
    signs.window_days,
    signs.sign,
    signs.field,
    signs.value,
    signs.comparison_value,
    signs.compared_with,
    signs.z,
    signs.message,
    scores.scored_at,
    scores.agent_label
from signs
inner join scores using (agent_id_hash, as_of, window_days)
where {{ in_scored_range('signs.as_of') }}
