{{
  config(
    materialized='replace_range',
    meta={'range': 'period_start'},
    indexes=[{'columns': ['period_start']}],
    pre_hook="{{ set_for_heavy_work() }}",
  )
}}
{#- Sums over the traces of an agent and period. They are numerators and denominators instead of ratios, and integers or
    exact decimals instead of floats, so that their sums are exact. Arrays over bins have ten elements (scoring.md §5
    and 6); arrays over fields follow red_flag_fields (certainty.md §5). Grain and key: agent and period with a
    counted trace. Only score_triples may be null. -#}
{%- set fields, bins = constant('red_flag_fields'), constant('score_bins', 0) -%}
{#- Counts of traces that have a flag of int_trace_checks. -#}
{%- set flags = {
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
} -%}
-- The optimization barrier makes PostgreSQL compute each bin once, not once per use.
with checks as (

    select
        agent_id_hash,
        period_start,
        traced_at,
        {% for flag in flags.values() %}
        {{ flag }},
        {% endfor %}
        case when is_chain_gap then {{ missing_numbers('audit_sequence_number', 'previous_audit_sequence_number') }} end
        as n_missing_numbers,
        n_fields_present,
        action_success,
        csdma_plausibility_score as confidence,
        {% for metric in constant('drift_metrics') %}
        {{ score_bin(metric) }} + 1 as {{ metric }}_bin,
        {% endfor %}
        case when action_success is not null then {{ score_bin('csdma_plausibility_score') }} + 1 end as judged_bin,
        {{ score_triple() }} as score_triple,
        {{ is_trivial('selected_action', 'csdma_plausibility_score') }} as is_trivial,
        {{ is_renumbered('audit_sequence_number', 'previous_audit_sequence_number') }} as is_renumbered,
        is_repeated_decision
    from {{ ref('int_trace_checks') }}
    where
        {{ in_checked_range('traced_at') }}
        and is_counted
    {{ optimization_barrier() }} -- noqa: AM09

),

trace_sums as (

    select
        agent_id_hash,
        period_start,
        min(traced_at) as first_traced_at,
        max(traced_at) as last_traced_at,
        count(*)::integer as n_traces,
        {% for count, flag in flags.items() %}
        count(*) filter (where {{ flag }})::integer as {{ count }},
        {% endfor %}
        coalesce(sum(n_missing_numbers), 0)::bigint as n_missing_numbers,
        sum(n_fields_present)::bigint as n_fields_present,
        count(*) filter (where is_trivial)::integer as n_trivial,
        count(*) filter (where is_renumbered)::integer as n_renumbered,
        count(*) filter (where is_repeated_decision)::integer as n_repeated_decisions,
        array_agg(score_triple) filter (where score_triple is not null) as unsorted_triples,
        {% for metric in constant('drift_metrics') %}
        {{ array_of_each(bins, 'count(*) filter (where ' ~ metric ~ '_bin = $i)') }}::integer[]
        as {{ metric }}_histogram,
        {% endfor %}
        count(judged_bin)::integer as n_judged,
        {{ array_of_each(bins, 'count(*) filter (where judged_bin = $i)') }}::integer[] as judged_by_bin,
        {{ array_of_each(bins, 'coalesce(sum(confidence) filter (where judged_bin = $i), 0) * 1e11') }}::bigint[]
        as confidence_by_bin,
        {{ array_of_each(bins, 'count(*) filter (where judged_bin = $i and action_success)') }}::integer[]
        as successes_by_bin
    from checks
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
    where {{ in_checked_range('traced_at') }}
    group by
        agent_id_hash,
        period_start

),

-- Traces grouped by reporting letters and key. A period has few combinations, so the string functions run rarely.
reporting_groups as (

    select
        agent_id_hash,
        period_start,
        reporting,
        key_hash,
        count(*) as n_traces
    from {{ ref('int_trace_checks') }}
    where
        {{ in_checked_range('traced_at') }}
        and is_counted
    group by
        agent_id_hash,
        period_start,
        reporting,
        key_hash

),

-- First use of each signing key by each agent; whether the agent had used another key before, and whether another agent
-- had used this key before.
key_uses as (

    select
        agent_id_hash,
        key_hash,
        {{ period_start('traced_at') }} as period_start,
        row_number() over (partition by agent_id_hash order by traced_at, key_hash) > 1 as is_another_key,
        row_number() over (partition by key_hash order by traced_at, agent_id_hash collate "C") > 1 as is_shared_key
    from {{ ref('int_agent_events') }}
    where
        kind = 'key'
        and traced_at < {{ run_as_of() }}

),

-- Traces per field, counted by the letters of the macro reporting. r: reported. c: null although the JSON components
-- have a value. u: null although the trace should report the field. -: null by design.
report_sums as (

    select
        reported.agent_id_hash,
        reported.period_start,
        coalesce(sum(reported.n_traces) filter (where shared_keys.key_hash is not null), 0)::integer as n_shared_key,
        {% for counter, letters in {'n_checked': 'rcu', 'n_unreported': 'cu', 'n_contradicted': 'c'}.items() %}
        {{ array_of_each(fields | length,
            "coalesce(sum(reported.n_traces) filter (where strpos('" ~ letters ~ "', substr(reported.reporting, $i, 1)) > 0), 0)"
        ) }}::integer[] as {{ counter }}{% if not loop.last %},{% endif %}
        {% endfor %}
    from reporting_groups as reported
    left join key_uses as shared_keys
        on
            reported.agent_id_hash = shared_keys.agent_id_hash
            and reported.key_hash = shared_keys.key_hash
            and shared_keys.is_shared_key
    group by
        reported.agent_id_hash,
        reported.period_start

),

new_keys as (

    select
        agent_id_hash,
        period_start,
        count(*)::integer as n_new_keys
    from key_uses
    where
        {{ in_checked_range('period_start') }}
        and is_another_key
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
    where {{ in_checked_range('hour_start') }}
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
    {% for count in flags %}
    trace_sums.{{ count }},
    {% endfor %}
    trace_sums.n_missing_numbers,
    trace_sums.n_fields_present,
    coalesce(replay_sums.n_replay_succeeded, 0) as n_replay_succeeded,
    coalesce(signal_sums.n_signals_corroborated, 0) as n_signals_corroborated,
    coalesce(signal_sums.n_signals_uncorroborated, 0) as n_signals_uncorroborated,
    coalesce(signal_sums.n_coherent_corroborated, 0) as n_coherent_corroborated,
    coalesce(signal_sums.n_coherent_uncorroborated, 0) as n_coherent_uncorroborated,
    trace_sums.n_judged,
    trace_sums.n_trivial,
    trace_sums.n_renumbered,
    trace_sums.n_repeated_decisions,
    report_sums.n_shared_key,
    coalesce(new_keys.n_new_keys, 0) as n_new_keys,
    {% for metric in constant('drift_metrics') %}
    trace_sums.{{ metric }}_histogram,
    {% endfor %}
    trace_sums.judged_by_bin,
    trace_sums.confidence_by_bin,
    trace_sums.successes_by_bin,
    report_sums.n_checked,
    report_sums.n_unreported,
    report_sums.n_contradicted,
    (
        select array_agg(triples.triple order by triples.triple)
        from unnest(trace_sums.unsorted_triples) as triples (triple)
    ) as score_triples
from trace_sums
inner join report_sums using (agent_id_hash, period_start)
{% for sums in ['replay_sums', 'new_keys', 'signal_sums'] %}
left join {{ sums }}
    on
        trace_sums.agent_id_hash = {{ sums }}.agent_id_hash
        and trace_sums.period_start = {{ sums }}.period_start
{% endfor %}
order by trace_sums.period_start
