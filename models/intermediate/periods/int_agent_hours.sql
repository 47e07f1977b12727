{{
  config(
    materialized='replace_range',
    meta={'range': 'hour_start'},
    pre_hook="{{ set_for_heavy_work() }}",
  )
}}
{#- Signals and mean coherence level of an agent by UTC hour. Agents corroborate each other by the hour, whatever the
    scoring period (scoring.md §7). Grain and key: agent and hour with a signal or a coherence level. -#}
with checks as (

    select
        agent_id_hash,
        traced_at,
        coherence_level,
        is_signal,
        is_coherent_signal
    from {{ ref('int_trace_checks') }}
    where
        {{ in_checked_range('traced_at') }}
        and is_counted
        and (is_signal or coherence_level is not null)

),

hours as (

    select
        agent_id_hash,
        {{ hour_start('traced_at') }} as hour_start,
        count(*) filter (where is_signal)::integer as n_signals,
        count(*) filter (where is_coherent_signal)::integer as n_coherent_signals,
        round(sum(coherence_level), 30) / nullif(count(coherence_level), 0) as mean_coherence_level
    from checks
    group by
        agent_id_hash,
        {{ hour_start('traced_at') }}

),

among_others as (

    select
        *,
        case when mean_coherence_level is not null
            then (sum(mean_coherence_level) over fleet - mean_coherence_level)
            / nullif(count(mean_coherence_level) over fleet - 1, 0)
        end as mean_of_others
    from hours
    window fleet as (partition by hour_start)

)

select
    agent_id_hash,
    hour_start,
    {{ period_start('hour_start') }} as period_start,
    n_signals,
    n_coherent_signals,
    mean_coherence_level,
    mean_of_others,
    {{ is_corroborated('mean_coherence_level', 'mean_of_others') }} as is_corroborated
from among_others
