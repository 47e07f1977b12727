{{
  config(
    materialized='replace_range',
    meta={'judged_range': 'period_start'},
    indexes=[{'columns': ['period_start']}],
    pre_hook="{{ set_for_heavy_work() }}",
  )
}}
{#- What intervals need of a period beside what the score needs (certainty.md §3): how long recoveries took, and a
    hash of all additive sums of the period, which says whether an interval has to be computed again.
    Grain and key: agent and period with a trace that counts. Nothing is null. -#}
with agent_periods as (

    select
        agent_id_hash,
        period_start,
        n_traces,
        n_identity_changes,
        n_overridden,
        n_chain_valid,
        n_fields_present,
        n_replay_sampled,
        n_replay_succeeded,
        n_unsafe,
        n_signals_corroborated,
        n_signals_uncorroborated,
        n_coherent_corroborated,
        n_coherent_uncorroborated,
        n_recoveries
    from {{ ref('int_agent_periods') }}
    where {{ in_judged_range('period_start') }}

),

calibration_bins as (

    select
        agent_id_hash,
        period_start,
        n_traces,
        sum_confidence,
        n_successes
    from {{ ref('int_calibration_bins') }}
    where {{ in_judged_range('period_start') }}

),

histograms as (

    select
        agent_id_hash,
        period_start,
        {% for metric in drift_metrics() %}
        {{ metric }}_histogram{% if not loop.last %},{% endif %}
        {% endfor %}
    from {{ ref('int_score_histograms') }}
    where {{ in_judged_range('period_start') }}

),

recoveries as (

    select
        agent_id_hash,
        period_start,
        {{ log_hours('(traced_at - detected_at)') }} as log_hours
    from {{ ref('int_fragility_events') }}
    where
        {{ in_judged_range('traced_at') }}
        and event = 'recovery'

),

recovery_sums as (

    select
        agent_id_hash,
        period_start,
        sum(log_hours) as log_recovery_hours,
        sum(log_hours * log_hours) as log_recovery_hours_squared
    from recoveries
    group by
        agent_id_hash,
        period_start

)

select
    agent_periods.agent_id_hash,
    agent_periods.period_start,
    coalesce(recovery_sums.log_recovery_hours, 0) as log_recovery_hours,
    coalesce(recovery_sums.log_recovery_hours_squared, 0) as log_recovery_hours_squared,
    hashtextextended(concat_ws(
        '|',
        {{ epoch('agent_periods.period_start') }},
        agent_periods.n_traces,
        agent_periods.n_identity_changes,
        agent_periods.n_overridden,
        agent_periods.n_chain_valid,
        agent_periods.n_fields_present,
        agent_periods.n_replay_sampled,
        agent_periods.n_replay_succeeded,
        agent_periods.n_unsafe,
        agent_periods.n_signals_corroborated,
        agent_periods.n_signals_uncorroborated,
        agent_periods.n_coherent_corroborated,
        agent_periods.n_coherent_uncorroborated,
        agent_periods.n_recoveries,
        coalesce(recovery_sums.log_recovery_hours, 0),
        coalesce(recovery_sums.log_recovery_hours_squared, 0),
        coalesce(calibration_bins.n_traces::text, '-'),
        coalesce(calibration_bins.sum_confidence::text, '-'),
        coalesce(calibration_bins.n_successes::text, '-'),
        {% for metric in drift_metrics() %}
        coalesce(histograms.{{ metric }}_histogram::text, '-'){% if not loop.last %},{% endif %}
        {% endfor %}
    ), 0) as sums_hash
from agent_periods
left join calibration_bins
    on
        agent_periods.agent_id_hash = calibration_bins.agent_id_hash
        and agent_periods.period_start = calibration_bins.period_start
left join histograms
    on
        agent_periods.agent_id_hash = histograms.agent_id_hash
        and agent_periods.period_start = histograms.period_start
left join recovery_sums
    on
        agent_periods.agent_id_hash = recovery_sums.agent_id_hash
        and agent_periods.period_start = recovery_sums.period_start
