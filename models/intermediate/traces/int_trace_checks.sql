{{
  config(
    materialized='replace_range',
    meta={'range': 'traced_at'},
    indexes=[{'columns': ['agent_id_hash', 'traced_at']}, {'columns': ['delivery_hash', 'traced_at']}],
    pre_hook="{{ set_for_heavy_work(costly_rows=true) }}",
  )
}}
{#- Checks of source rows, from which scores are computed; int_replays has the replay checks. Rows that do not count are
    included, with is_counted false. Optimization barriers separate the steps, so that each value is cleaned once and
    only narrow rows are sorted. A row whose agent is missing, blank or oversized has an empty agent and does not count;
    the agent that was sent may be too long for an index. Grain: source row, dated in [traces_from, as-of). Key:
    traced_at, trace_check_id. Columns are null if the value was not sent. -#}
{#- Columns whose last value in earlier traces of the agent is an input of a check, each with the condition of the
    earlier traces that are used. An audit number is used even if the run kind of its trace is not scored, or its
    outcome came too late, because the next trace continues the chain. -#}
{%- set state = {
  'agent_name': 'is_counted',
  'audit_sequence_number': 'true' if is_trace_one_row() else 'not is_duplicate',
  'idma_fragility_flag': 'is_counted',
} -%}
{#- Events of agents as the previous run left them. -#}
{%- set known_events = relation_as_left('int_agent_events') if is_incremental() -%}
{%- set is_linked = is_link_valid('has_entry_hash', 'audit_sequence_number', 'previous_audit_sequence_number') -%}
with public_keys as (

    {{ registered_keys() }}

),

cleaned as (

    select
        traces.*,
        {{ period_start('traces.traced_at') }} as period_start,
        {{ is_key_registered('public_keys.registered_until', 'traces.traced_at') }} as is_key_registered
    from {{ ref('stg_cirislens__covenant_traces') }} as traces
    left join public_keys on traces.signature_key_id = public_keys.key_id
    where
        {{ in_checked_range('traces.traced_at') }}
        and traces.traced_at >= {{ traces_from() }}
    {{ optimization_barrier() }} -- noqa: AM09

),

-- Narrow rows with hashes instead of the text that is sorted below. delivery_hash groups the deliveries of one trace
-- (with its agent, trace_id and audit_sequence_number), sampling_hash orders the replay sample, content_hash breaks
-- ties. Columns of fixed length come first, because PostgreSQL reads them fastest.
checked as (

    select
        traced_at,
        period_start,
        {{ delivery_hash('trace_id_as_sent' if is_trace_one_row() else 'trace_id', 'audit_sequence_number') }}
        as delivery_hash,
        {{ content_hash() }} as content_hash,
        audit_sequence_number,
        md5({{ literal(scoring_parameter('replay_sample_salt')) }} || trace_id)::uuid as sampling_hash,
        coalesce(agent_id_hash, '') as agent_id_hash,
        trace_id,
        agent_name,
        {{ occurrence_id() }} as occurrence_id,
        signature_verified is true as is_signature_verified,
        is_key_registered,
        signature is not null as is_signed,
        audit_entry_hash is not null as has_entry_hash,
        num_nonnulls({{ constant('required_fields') | join(', ') }}) as n_fields_present,
        {{ missing_fields() }} as missing_fields,
        csdma_plausibility_score,
        dsdma_domain_alignment,
        coherence_level,
        entropy_level,
        idma_fragility_flag,
        idma_phase,
        conscience_passed,
        action_was_overridden,
        coherence_passed,
        {{ is_override_without_judgement() }} as is_override_without_judgement,
        selected_action,
        action_success,
        {{ reporting() }} as reporting,
        {{ key_hash('signature_key_id') }} as key_hash,
        n_events,
        run_kind,
        repairs
    from cleaned
    {{ optimization_barrier() }} -- noqa: AM09

),

deliveries as (

    select
        *,
        {{ 'false' if is_trace_one_row() else "row_number() over delivery > 1 and agent_id_hash <> ''" }}
        as is_sent_again,
        {{ copy_number('delivery') }} as copy_number
    from checked
    window delivery as (
        partition by
            {{ of_agent() }},
            {% if is_trace_one_row() %}
            occurrence_id
            {% else %}
            delivery_hash, trace_id collate "C", audit_sequence_number
            {% endif %}
        order by traced_at, content_hash
    )

),

identified as (

    select
        *,
        {{ trace_check_id() }} as trace_check_id,
        delivery_hash is not null and (
            is_sent_again
            {% if is_incremental() %}
            or exists (
                select 1
                from {{ this }} as earlier
                where
                    earlier.delivery_hash = deliveries.delivery_hash
                    and earlier.agent_id_hash = deliveries.agent_id_hash
                    and earlier.trace_id is not distinct from deliveries.trace_id
                    {% if not is_trace_one_row() %}
                    and deliveries.agent_id_hash <> ''
                    and earlier.audit_sequence_number is not distinct from deliveries.audit_sequence_number
                    {% endif %}
                    and earlier.traced_at < {{ rechecked_from() }}
            )
            {% endif %}
        ) as is_duplicate
    from deliveries

),

-- Last known values of each agent before the traces that the run checks. Empty if the run checks everything.
previous_state as (

    {% if known_events %}
    select
        agents.agent_id_hash,
        agents.has_counted_trace,
        previous_rows.*
    from (
        select
            agent_id_hash,
            bool_or(kind = 'first_trace') as has_counted_trace
        from {{ known_events }}
        where
            kind in ('first_trace', 'first_unscored')
            and traced_at < {{ rechecked_from() }}
        group by agent_id_hash
    ) as agents
    cross join lateral (
        select
            coalesce(case when earlier.is_counted then earlier.agent_name end, earlier.previous_agent_name)
            as agent_name,
            coalesce(earlier.audit_sequence_number, earlier.previous_audit_sequence_number) as audit_sequence_number,
            earlier.last_fragility_flag as idma_fragility_flag
        from {{ this }} as earlier
        where
            earlier.agent_id_hash = agents.agent_id_hash
            and earlier.traced_at < {{ rechecked_from() }}
            {% if not is_trace_one_row() %}
            and not earlier.is_duplicate
            {% endif %}
        order by {{ newest_first('trace_check_id', 'earlier') }}
        limit 1
    ) as previous_rows
    {% else %}
    select
        null::text as agent_id_hash,
        null::boolean as has_counted_trace,
        null::text as agent_name,
        null::bigint as audit_sequence_number,
        null::boolean as idma_fragility_flag
    where false
    {% endif %}

),

-- For each column in `state`, the last value in earlier traces of the agent. Three steps need only one sort: `numbered`
-- numbers the traces of each agent, `located` finds the number of the last earlier trace with a value, and `in_context`
-- reads that value.
numbered as (

    select
        identified.*,
        not identified.is_duplicate
        and identified.agent_id_hash <> ''
        and {{ is_scored_kind('identified.run_kind') }} as is_counted,
        coalesce(previous_state.has_counted_trace, false) as has_earlier_trace,
        {% for value in state %}
        previous_state.{{ value }} as state_{{ value }},
        {% endfor %}
        row_number() over agent_order as agent_position
    from identified
    left join previous_state on identified.agent_id_hash = previous_state.agent_id_hash
    window agent_order as ({{ agent_order('identified') }})

),

located as (

    select
        *,
        {% for value, is_known in state.items() %}
        max(case when {{ is_known }} and {{ value }} is not null then agent_position end) over before
        as {{ value }}_position,
        {% endfor %}
        max(case when is_counted then agent_position end) over before as trace_position
    from numbered
    window before as ({{ agent_order() }} rows between unbounded preceding and 1 preceding)

),

in_context as (

    select
        *,
        {% for value in state %}
        coalesce(nth_value({{ value }}, {{ value }}_position::integer) over so_far, state_{{ value }})
        as previous_{{ value }}{% if not loop.last %},{% endif %}
        {% endfor %}
    from located
    window so_far as ({{ agent_order() }} rows between unbounded preceding and current row)

),

-- Ranks come last, because their order differs. Windows before them share the order of an agent's traces.
ranked as (

    select
        *,
        row_number() over (
            partition by {{ of_agent() }}, period_start, is_counted
            order by sampling_hash, audit_sequence_number, traced_at, trace_check_id
        ) as sample_rank
    from in_context

)

select
    -- trace
    trace_check_id,
    delivery_hash,
    agent_id_hash,
    trace_id,
    traced_at,
    period_start,
    audit_sequence_number,
    agent_name,
    selected_action,
    is_duplicate,
    is_counted,
    n_events,
    run_kind,
    repairs,

    -- identity (C)
    is_counted and trace_position is null and not has_earlier_trace as is_first_trace,
    is_counted and agent_name is not null and previous_agent_name is null as is_first_name,
    is_counted and coalesce(agent_name <> previous_agent_name, false) as is_identity_change,
    previous_agent_name,
    coalesce(action_was_overridden, false) as is_overridden,
    is_override_without_judgement,
    conscience_passed is false as is_conscience_failed,

    -- chain, coverage and replay (I_int)
    is_signature_verified,
    is_key_registered,
    is_counted and {{ is_linked }} as is_link_valid,
    is_counted
    and is_signed
    and is_signature_verified
    {% if scoring_parameter('require_registered_keys') %}
    and is_key_registered
    {% endif %}
    and {{ is_linked }} as is_chain_valid,
    is_counted
    and {{ is_chain_gap('audit_sequence_number', 'previous_audit_sequence_number') }} as is_chain_gap,
    is_counted and coalesce(audit_sequence_number < previous_audit_sequence_number, false) as is_chain_rewind,
    is_counted and coalesce(audit_sequence_number = previous_audit_sequence_number, false) as is_chain_duplicate,
    previous_audit_sequence_number,
    n_fields_present,
    missing_fields,
    is_counted
    and {{ scoring_parameter('replay_enabled') | string | lower }}
    and sample_rank <= {{ scoring_parameter('replay_sample_per_period') }} as is_replay_sampled,

    -- red flags of selective reporting
    reporting,
    key_hash,

    -- scores and fragile episodes (R)
    csdma_plausibility_score,
    dsdma_domain_alignment,
    coherence_level,
    idma_fragility_flag,
    idma_phase,
    is_counted and idma_fragility_flag is true and previous_idma_fragility_flag is not true as is_fragility_detected,
    is_counted and idma_fragility_flag is false and previous_idma_fragility_flag is true as is_fragility_recovered,
    coalesce(case when is_counted then idma_fragility_flag end, previous_idma_fragility_flag) as last_fragility_flag,

    -- outcome (I_inc) and coherence signals (S)
    entropy_level,
    action_success,
    {{ is_unsafe('entropy_level', 'action_success') }} as is_unsafe,
    coherence_passed is not null as is_signal,
    coherence_passed is true and is_signature_verified as is_coherent_signal
from ranked
