{{
  config(
    materialized='replace_range',
    meta={'scored_range': 'as_of'},
    pre_hook="{{ set_for_heavy_work(joins_by_key=true) }}",
  )
}}
{#- A digest of everything that int_window_statistics reads of an as-of and window (scoring.md §5, certainty.md §3). All
    agents share it: the limits of each depend on the fleet's correlations at that as-of, and these on each agent's sums
    over the longest memory. Statistics with the same digest are not computed again.
    Grain and key: as-of and window with a scored agent. Nothing is null. Doubles enter the digest by their bytes,
    because their text depends on the session. -#}
with window_sums as (

    select
        agent_id_hash,
        as_of,
        window_days,
        baseline_start,
        coherence_days,
        memory_hash
    from {{ ref('int_window_sums') }}
    where {{ in_scored_range('as_of') }}

),

resilience_inputs as (

    select
        agent_id_hash,
        as_of,
        window_days,
        n_recoveries,
        n_open_episodes,
        mttr_hours,
        rho_regression,
        mttr_hours_steady,
        n_steady_episodes,
        log_hours,
        n_episodes_before,
        log_hours_before,
        log_hours_squared_before
    from {{ ref('int_resilience_inputs') }}
    where {{ in_scored_range('as_of') }}

),

deferrals as (

    select
        agent_id_hash,
        as_of,
        window_days,
        q_deferral,
        n_judged_deferrals,
        q_deferral_steady,
        n_steady_deferrals,
        q_deferral_before,
        n_deferrals_before
    from {{ ref('int_incompleteness_awareness') }}
    where {{ in_scored_range('as_of') }}

),

row_hashes as (

    select
        window_sums.as_of,
        window_sums.window_days,
        hashtextextended(concat_ws(
            '|',
            encode(float8send(resilience_inputs.mttr_hours), 'hex'),
            encode(float8send(resilience_inputs.rho_regression), 'hex'),
            resilience_inputs.n_recoveries,
            resilience_inputs.n_open_episodes,
            deferrals.q_deferral,
            deferrals.n_judged_deferrals,
            resilience_inputs.mttr_hours_steady,
            resilience_inputs.n_steady_episodes,
            encode(float8send(resilience_inputs.log_hours), 'hex'),
            resilience_inputs.n_episodes_before,
            encode(float8send(resilience_inputs.log_hours_before), 'hex'),
            encode(float8send(resilience_inputs.log_hours_squared_before), 'hex'),
            deferrals.q_deferral_steady,
            deferrals.n_steady_deferrals,
            deferrals.q_deferral_before,
            deferrals.n_deferrals_before,
            {{ epoch('window_sums.baseline_start') }},
            window_sums.coherence_days,
            window_sums.memory_hash,
            window_sums.agent_id_hash
        ), 0) as row_hash
    from window_sums
    inner join resilience_inputs using (agent_id_hash, as_of, window_days)
    inner join deferrals using (agent_id_hash, as_of, window_days)

)

select
    as_of,
    window_days,
    count(*)::integer as n_agents,
    md5(concat_ws('|', '{{ statistics_parameters() }}', count(*), sum(row_hash))) as inputs_digest
from row_hashes
group by
    as_of,
    window_days
