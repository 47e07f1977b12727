{{ config(materialized='ephemeral') }}
{#- Source rows that the run checks, with the agent's registered key, and whether another row is the same trace
    (scoring.md §2). Optimization barriers separate the steps, so that each value is cleaned once and only narrow rows are
    sorted. A row whose agent is missing, blank or oversized has an empty agent and does not count; the agent that was
    sent may be too long for an index. Grain: source row, dated in [traces_from, as-of). Key: trace_check_id. -#}
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
        traces.traced_at >= {{ rechecked_from() }}
        and traces.traced_at < {{ run_as_of() }}
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
        {{ 'agent_id_hash_as_sent,' if is_distributed() }}
        trace_id,
        agent_name,
        {{ occurrence_id('agent_id_hash_as_sent') }} as occurrence_id,
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
            {{ of_agent(column=sent_agent()) }},
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
            {% if earlier_checks() %}
            or exists (
                select 1
                from {{ earlier_checks() }} as earlier
                where
                    earlier.delivery_hash = deliveries.delivery_hash
                    and earlier.agent_id_hash = deliveries.{{ sent_agent() }}
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

)

select * from identified
