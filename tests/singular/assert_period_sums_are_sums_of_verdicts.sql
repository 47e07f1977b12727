{% if is_testable() %}
-- Every counted trace is in exactly one row of int_agent_periods, and every sum there equals a direct count of
-- int_trace_checks. Each value of a metric is in exactly one bin, and each sampled trace has a replay. Windows,
-- factors and scores are computed from these sums.
{#- The column of int_trace_checks that each counter counts. -#}
{%- set counted = {
    'n_identity_changes': 'is_identity_change',
    'n_overridden': 'is_overridden',
    'n_conscience_failed': 'is_conscience_failed',
    'n_signature_verified': 'is_signature_verified',
    'n_key_registered': 'is_key_registered',
    'n_link_valid': 'is_link_valid',
    'n_chain_valid': 'is_chain_valid',
    'n_chain_gaps': 'is_chain_gap',
    'n_chain_rewinds': 'is_chain_rewind',
    'n_chain_duplicates': 'is_chain_duplicate',
    'n_replay_sampled': 'is_replay_sampled',
    'n_unsafe': 'is_unsafe',
} %}
{%- set sums = counted.keys() | list
    + ['n_traces', 'n_fields_present', 'n_signals', 'n_coherent_signals', 'n_replayed', 'n_replay_succeeded',
       'last_traced_at', 'n_judged', 'n_judged_in_bins', 'confidence', 'n_successes']
    + constant('drift_metrics') %}
with replays as (

    select
        agent_id_hash,
        traced_at,
        trace_check_id,
        is_replayable
    from {{ ref('int_replays') }}
    where {{ in_increment(ref('int_replays')) }}

),

verdicts as (

    select
        verdicts.*,
        replays.trace_check_id as replay_id,
        replays.is_replayable as has_replayed
    from {{ ref('int_trace_checks') }} as verdicts
    left join replays
        on
            verdicts.agent_id_hash = replays.agent_id_hash
            and verdicts.traced_at = replays.traced_at
            and verdicts.trace_check_id = replays.trace_check_id
    where
        {{ in_increment(ref('int_trace_checks'), 'verdicts') }}
        and verdicts.is_counted

),

direct_sums as (

    select
        agent_id_hash,
        period_start,
        count(*) as n_traces,
        {% for counter, verdict in counted.items() %}
        count(*) filter (where {{ verdict }}) as {{ counter }},
        {% endfor %}
        sum(n_fields_present) as n_fields_present,
        count(*) filter (where is_signal) as n_signals,
        count(*) filter (where is_coherent_signal) as n_coherent_signals,
        count(replay_id) as n_replayed,
        count(*) filter (where has_replayed) as n_replay_succeeded,
        max(traced_at) as last_traced_at,
        {% for metric in constant('drift_metrics') %}
        count({{ metric }}) as {{ metric }},
        {% endfor %}
        count(csdma_plausibility_score) filter (where action_success is not null) as n_judged,
        count(csdma_plausibility_score) filter (where action_success is not null) as n_judged_in_bins,
        coalesce(sum(csdma_plausibility_score) filter (where action_success is not null), 0) as confidence,
        count(csdma_plausibility_score) filter (where action_success) as n_successes
    from verdicts
    group by
        agent_id_hash,
        period_start

),

period_sums as (

    select
        *,
        n_signals_corroborated + n_signals_uncorroborated as n_signals,
        n_coherent_corroborated + n_coherent_uncorroborated as n_coherent_signals,
        n_replay_sampled as n_replayed,
        {% for name, array in {
            'n_judged_in_bins': 'judged_by_bin', 'confidence': 'confidence_by_bin', 'n_successes': 'successes_by_bin',
        }.items() %}
        (select sum(bins.n) from unnest({{ array }}) as bins (n)) as {{ name }},
        {% endfor %}
        {% for metric in constant('drift_metrics') %}
        (select sum(bins.n) from unnest({{ metric }}_histogram) as bins (n)) as {{ metric }}
        {%- if not loop.last %},{% endif %}
        {% endfor %}
    from {{ ref('int_agent_periods') }}
    where {{ in_increment(ref('int_agent_periods')) }}

)

select
    agent_id_hash,
    period_start,
    direct_sums.n_traces as n_traces_direct,
    period_sums.n_traces as n_traces_summed
from direct_sums
full join period_sums using (agent_id_hash, period_start)
where
    {% for name in sums %}
    direct_sums.{{ name }} is distinct from period_sums.{{ name }}{% if not loop.last %} or{% endif %}
    {% endfor %}
{% else %}
{{ untested() }}
{% endif %}
