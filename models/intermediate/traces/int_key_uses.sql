{{
  config(
    materialized='replace_range',
    meta={'range': 'traced_at'},
    indexes=[{'columns': ['key_hash', 'traced_at']}, {'columns': ['traced_at']}],
    pre_hook="{{ set_for_heavy_work() }}",
  )
}}
{#- Grain: agent and signing key, at the first counted trace with the key: had the agent signed with another key before,
    and had another agent signed with this one? Nothing is null. -#}
with first_uses as (

    select
        agent_id_hash,
        key_hash,
        min(traced_at) as traced_at
    from {{ ref('int_trace_verdicts') }}
    where
        {{ in_judged_range('traced_at') }}
        and is_counted
        and key_hash is not null
    group by
        agent_id_hash,
        key_hash

),

new_uses as (

    select
        first_uses.agent_id_hash,
        first_uses.key_hash,
        first_uses.traced_at
    from first_uses
    {% if is_incremental() %}
    where not exists (
        select 1
        from {{ this }} as earlier
        where
            earlier.agent_id_hash = first_uses.agent_id_hash
            and earlier.key_hash = first_uses.key_hash
            and earlier.traced_at < {{ rejudged_from() }}
    )
    {% endif %}

),

ordered as (

    select
        *,
        row_number() over (partition by agent_id_hash order by traced_at, key_hash) as nth_key,
        row_number() over (partition by key_hash order by traced_at, agent_id_hash collate "C") as nth_agent
    from new_uses

)

select
    agent_id_hash,
    key_hash,
    traced_at,
    {{ period_start('traced_at') }} as period_start,
    nth_key > 1
    {% if is_incremental() %}
    or exists (
        select 1
        from {{ this }} as earlier
        where
            earlier.agent_id_hash = ordered.agent_id_hash
            and earlier.traced_at < {{ rejudged_from() }}
    )
    {% endif %}
    as is_another_key,
    nth_agent > 1
    {% if is_incremental() %}
    or exists (
        select 1
        from {{ this }} as earlier
        where
            earlier.key_hash = ordered.key_hash
            and earlier.traced_at < {{ rejudged_from() }}
    )
    {% endif %}
    as is_shared_key
from ordered
