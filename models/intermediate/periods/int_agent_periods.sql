{{
  config(
    materialized='replace_range',
    meta={'judged_range': 'period_start'},
    indexes=[{'columns': ['period_start']}],
    pre_hook="{{ set_for_heavy_work() }}",
  )
}}
{#- What windows sum: numerators and denominators of one period, never ratios; integers or exact numerics, never floats.
    Grain and key: agent and period with a trace that counts. replay_success_weight is null where nothing was sampled. -#}
with verdicts as (

    select
        {{ agent_key() }} as agent_id_hash,
        period_start,
        traced_at,
        is_identity_change,
        is_overridden,
        is_conscience_failed,
        is_signature_verified,
        is_key_registered,
        is_link_valid,
        is_chain_valid,
        is_chain_gap,
        is_chain_rewind,
        is_chain_duplicate,
        n_fields_present,
        is_replay_sampled,
        is_unsafe
    from {{ ref('int_trace_verdicts') }}
    where
        {{ in_judged_range('traced_at') }}
        and is_counted

),

trace_sums as (

    select
        agent_id_hash,
        period_start,
        min(traced_at) as first_traced_at,
        max(traced_at) as last_traced_at,
        count(*)::integer as n_traces,
        count(*) filter (where is_identity_change)::integer as n_identity_changes,
        count(*) filter (where is_overridden)::integer as n_overridden,
        count(*) filter (where is_conscience_failed)::integer as n_conscience_failed,
        count(*) filter (where is_signature_verified)::integer as n_signature_verified,
        count(*) filter (where is_key_registered)::integer as n_key_registered,
        count(*) filter (where is_link_valid)::integer as n_link_valid,
        count(*) filter (where is_chain_valid)::integer as n_chain_valid,
        count(*) filter (where is_chain_gap)::integer as n_chain_gaps,
        count(*) filter (where is_chain_rewind)::integer as n_chain_rewinds,
        count(*) filter (where is_chain_duplicate)::integer as n_chain_duplicates,
        sum(n_fields_present)::bigint as n_fields_present,
        count(*) filter (where is_replay_sampled)::integer as n_replay_sampled,
        count(*) filter (where is_unsafe)::integer as n_unsafe
    from verdicts
    group by
        agent_id_hash,
        period_start

),

replay_sums as (

    select
        agent_id_hash,
        period_start,
        count(*) filter (where is_replayable)::integer as n_replay_succeeded
    from {{ ref('int_replays') }}
    where {{ in_judged_range('traced_at') }}
    group by
        agent_id_hash,
        period_start

),

signal_sums as (

    select
        agent_id_hash,
        period_start,
        sum(n_signals) filter (where is_corroborated)::integer as n_signals_corroborated,
        sum(n_signals) filter (where not is_corroborated)::integer as n_signals_uncorroborated,
        sum(n_coherent_signals) filter (where is_corroborated)::integer as n_coherent_corroborated,
        sum(n_coherent_signals) filter (where not is_corroborated)::integer as n_coherent_uncorroborated
    from {{ ref('int_agent_hours') }}
    where {{ in_judged_range('hour_start') }}
    group by
        agent_id_hash,
        period_start

),

recovery_sums as (

    select
        agent_id_hash,
        period_start,
        count(*)::integer as n_recoveries,
        {{ microseconds('sum(traced_at - detected_at)') }} as recovery_microseconds
    from {{ ref('int_fragility_events') }}
    where
        {{ in_judged_range('traced_at') }}
        and event = 'recovery'
    group by
        agent_id_hash,
        period_start

)

select
    trace_sums.agent_id_hash,
    trace_sums.period_start,
    trace_sums.first_traced_at,
    trace_sums.last_traced_at,
    trace_sums.n_traces,
    trace_sums.n_identity_changes,
    trace_sums.n_overridden,
    trace_sums.n_conscience_failed,
    trace_sums.n_signature_verified,
    trace_sums.n_key_registered,
    trace_sums.n_link_valid,
    trace_sums.n_chain_valid,
    trace_sums.n_chain_gaps,
    trace_sums.n_chain_rewinds,
    trace_sums.n_chain_duplicates,
    trace_sums.n_fields_present,
    trace_sums.n_replay_sampled,
    coalesce(replay_sums.n_replay_succeeded, 0) as n_replay_succeeded,
    {{ replay_stratum(
        'trace_sums.n_traces', 'coalesce(replay_sums.n_replay_succeeded, 0)', 'trace_sums.n_replay_sampled'
    ) }} as replay_success_weight,
    trace_sums.n_unsafe,
    coalesce(signal_sums.n_signals_corroborated, 0) as n_signals_corroborated,
    coalesce(signal_sums.n_signals_uncorroborated, 0) as n_signals_uncorroborated,
    coalesce(signal_sums.n_coherent_corroborated, 0) as n_coherent_corroborated,
    coalesce(signal_sums.n_coherent_uncorroborated, 0) as n_coherent_uncorroborated,
    coalesce(recovery_sums.n_recoveries, 0) as n_recoveries,
    coalesce(recovery_sums.recovery_microseconds, 0) as recovery_microseconds
from trace_sums
left join replay_sums
    on
        trace_sums.agent_id_hash = replay_sums.agent_id_hash
        and trace_sums.period_start = replay_sums.period_start
left join signal_sums
    on
        trace_sums.agent_id_hash = signal_sums.agent_id_hash
        and trace_sums.period_start = signal_sums.period_start
left join recovery_sums
    on
        trace_sums.agent_id_hash = recovery_sums.agent_id_hash
        and trace_sums.period_start = recovery_sums.period_start
