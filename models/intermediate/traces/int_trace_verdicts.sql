{{
  config(
    materialized='incremental',
    incremental_strategy='replace_range',
    on_schema_change='fail',
    meta={'range_column': 'traced_at'},
    indexes=[
      {'columns': ['agent_id_hash', 'traced_at']},
      {'columns': ['traced_at']},
      {'columns': ['delivery_hash', 'traced_at']},
    ],
    pre_hook="{{ set_for_heavy_work(costly_rows=true) }}",
    post_hook=["{{ keep_views(this) }}", "{{ update_statistics() }}"],
  )
}}
{#- Grain: one row per source row dated before the as-of. Every verdict a score needs, once; the only reader of the
    wide rows. Sets nothing aside silently: rows that do not count stay, with is_counted false. -#}
{%- set replayed = scoring_parameter('replay_enabled') -%}
{%- set salt = scoring_parameter('replay_sample_salt') | replace("'", "''") -%}
{%- set verdicts = ['entropy_passed', 'coherence_passed', 'optimization_veto_passed', 'epistemic_humility_passed'] -%}
{%- set guardrails = ['thought_depth_triggered', 'updated_status_detected'] -%}
{%- set conscience_numbers = ['entropy_score', 'entropy_threshold', 'coherence_score', 'coherence_threshold',
  'entropy_level', 'coherence_level'] -%}

with public_keys as (

    -- A key that stands twice in the registry is as revoked and as expired as its strictest entry.
    select
        key_id,
        min(revoked_at) as revoked_at,
        min(expires_at) as expires_at
    from {{ ref('stg_cirislens__covenant_public_keys') }}
    where key_id is not null
    group by key_id

),

-- The wide rows, read once. Here and below, an offset of 0 makes PostgreSQL work a step out before the next one: each
-- value is cleaned or looked up once, and only narrow rows reach the sorts.
cleaned as (

    select
        agent_id_hash,
        agent_name,
        trace_id,
        thought_id,
        traced_at,
        audit_sequence_number,
        signature,
        signature_verified,
        signature_key_id,
        audit_entry_hash,
        csdma_plausibility_score,
        dsdma_domain_alignment,
        coherence_level,
        entropy_level,
        idma_k_eff,
        idma_fragility_flag,
        idma_phase,
        conscience_passed,
        action_was_overridden,
        coherence_passed,
        selected_action,
        action_success,
        case
            when num_nonnulls({{ repairable_columns() | join(', ') }}) < n_repairable_sent
                then array_remove(array[
                    {% for repair in trace_repairs() %}
                    case when is_{{ repair }} then '{{ repair }}' end{% if not loop.last %},{% endif %}
                    {% endfor %}
                ], null)
        end as repairs,
        {% if replayed %}
        coalesce(jsonb_typeof(thought_start) = 'object', false) as is_thought_start_recorded,
        -- An empty path unpacks the whole value once, where every look-up would unpack it again.
        dma_results #> '{}' as dma_results,
        conscience_result #> '{}' as conscience_result,
        action_result #> '{}' as action_result,
        conscience_result @> {{ usual_conscience() }} as is_conscience_usual,
        dma_results #> '{csdma,plausibility_score}' as json_csdma_plausibility_score,
        dma_results #> '{dsdma,domain_alignment}' as json_dsdma_domain_alignment,
        action_result -> 'execution_success' as json_action_success,
        {% endif %}
        {{ period_start('traced_at') }} as period_start
    from {{ ref('stg_cirislens__covenant_traces') }}
    where
        {{ is_rewritten('traced_at') }}
        and traced_at > '-infinity'
    offset bigint '0' -- noqa: AM09

),

traces as (

    select
        agent_id_hash,
        agent_name,
        trace_id,
        traced_at,
        period_start,
        audit_sequence_number,
        signature,
        signature_verified,
        signature_key_id,
        audit_entry_hash,
        csdma_plausibility_score,
        dsdma_domain_alignment,
        coherence_level,
        entropy_level,
        idma_fragility_flag,
        idma_phase,
        conscience_passed,
        action_was_overridden,
        coherence_passed,
        selected_action,
        action_success,
        num_nonnulls({{ required_fields() | join(', ') }}) as n_fields_present,
        {% if replayed %}
        is_thought_start_recorded,
        {{ first_json('json_csdma_plausibility_score', "dma_results -> 'csdma_plausibility_score'") }}
            as json_csdma_plausibility_score,
        {{ first_json('json_dsdma_domain_alignment', "dma_results -> 'dsdma_domain_alignment'") }}
            as json_dsdma_domain_alignment,
        {{ first_json('json_action_success', "action_result -> 'success'") }} as json_action_success,
        action_result -> 'audit_sequence_number' as json_audit_sequence_number,
        action_result -> 'audit_entry_hash' as json_audit_entry_hash,
        {% for key in conscience_numbers %}
        conscience_result -> '{{ key }}' as json_{{ key }},
        {% endfor %}
        is_conscience_usual,
        {% for key, value in usual_conscience_values().items() %}
        case
            when is_conscience_usual then jsonb '{{ value }}' else conscience_result -> '{{ key }}'
        end as json_{{ key }},
        {% endfor %}
        {% endif %}
        repairs
    from cleaned
    offset bigint '0' -- noqa: AM09

),

compared as (

    select
        traces.*,
        public_keys.key_id is not null
        and (public_keys.revoked_at is null or public_keys.revoked_at > traces.traced_at)
        and (public_keys.expires_at is null or public_keys.expires_at > traces.traced_at) as is_key_registered,
        {% if replayed %}
        array[
            {{ replay_faculty('json_entropy_passed', 'json_entropy_score', '<=', 'json_entropy_threshold') }},
            {{ replay_faculty('json_coherence_passed', 'json_coherence_score', '>=', 'json_coherence_threshold') }},
            traces.is_conscience_usual or {{ replay_conscience(
                'json_conscience_passed',
                ['json_' ~ verdicts[0], 'json_' ~ verdicts[1], 'json_' ~ verdicts[2], 'json_' ~ verdicts[3]],
                ['json_' ~ guardrails[0], 'json_' ~ guardrails[1]],
            ) }},
            {{ replay_number('csdma_plausibility_score', 'json_csdma_plausibility_score', 2) }},
            {{ replay_number('dsdma_domain_alignment', 'json_dsdma_domain_alignment', 2) }},
            {{ replay_number('entropy_level', 'json_entropy_level', 4) }},
            {{ replay_number('coherence_level', 'json_coherence_level', 4) }},
            {% for key in ['coherence_passed', 'conscience_passed', 'action_was_overridden'] %}
            case
                when traces.is_conscience_usual then {{ key }} = {{ usual_conscience_values()[key] }}
                else {{ replay_boolean(key, 'json_' ~ key) }}
            end,
            {% endfor %}
            {{ replay_boolean('action_success', 'json_action_success') }},
            {{ replay_number('audit_sequence_number', 'json_audit_sequence_number') }},
            {{ replay_text('audit_entry_hash', 'json_audit_entry_hash') }}
        ] as replay_comparisons
        {% else %}
        null::boolean[] as replay_comparisons
        {% endif %}
    from traces
    left join public_keys on traces.signature_key_id = public_keys.key_id
    offset bigint '0' -- noqa: AM09

),

-- One narrow row per source row. Hashes stand in for the text that is sorted below: delivery_hash brings rows of one
-- delivery (agent, trace_id, audit_sequence_number) together; sampling_hash orders as its hexadecimal digits do;
-- content_hash settles complete ties, which production's key excludes. replay_outcome, kept where a comparison failed,
-- has a letter per comparison: t holds, f does not, - did not run. Sort keys of fixed length come first, where
-- PostgreSQL finds them without looking at what stands before.
judged as (

    select
        traced_at,
        period_start,
        hashtextextended(trace_id, coalesce(audit_sequence_number, -1)) as delivery_hash,
        hashtextextended(coalesce(signature, '') || coalesce(agent_name, ''), 0) as content_hash,
        audit_sequence_number,
        md5('{{ salt }}' || trace_id)::uuid as sampling_hash,
        agent_id_hash,
        trace_id,
        agent_name,
        md5(
            encode(timestamptz_send(traced_at), 'hex')
            || '|' || coalesce(audit_sequence_number::text, '')
            || '|' || coalesce(length(agent_id_hash)::text, '')
            || '|' || coalesce(agent_id_hash, '')
            || '|' || coalesce(trace_id, '')
        )::uuid as occurrence_id,
        signature_verified is true as is_signature_verified,
        is_key_registered,
        signature is not null as is_signed,
        audit_entry_hash is not null as has_entry_hash,
        n_fields_present,
        csdma_plausibility_score,
        dsdma_domain_alignment,
        coherence_level,
        entropy_level,
        idma_fragility_flag,
        idma_phase,
        conscience_passed,
        action_was_overridden,
        coherence_passed,
        selected_action,
        action_success,
        {% if replayed %}
        is_thought_start_recorded,
        (
            is_thought_start_recorded
            and true = any(replay_comparisons)
            and (false = any(replay_comparisons)) is not true
        ) is true as is_replayable,
        case
            when false = any(replay_comparisons) then array_to_string(replay_comparisons, '', '-')
        end as replay_outcome,
        {% else %}
        null::boolean as is_thought_start_recorded,
        null::boolean as is_replayable,
        null::text as replay_outcome,
        {% endif %}
        repairs
    from compared
    offset bigint '0' -- noqa: AM09

),

-- copy_number is null but for rows that tie with another of their delivery in time: then it tells them apart.
deliveries as (

    select
        *,
        row_number() over delivery > 1 as is_sent_again,
        case
            when lag(traced_at) over delivery = traced_at then row_number() over delivery - rank() over delivery
        end as copy_number
    from judged
    window delivery as (
        partition by agent_id_hash collate "C", delivery_hash, trace_id collate "C", audit_sequence_number
        order by traced_at, content_hash
    )

),

-- Three passes over one sort: where each trace stands, where the last known value of a trace that counts stood before
-- it, and what that value was. In an increment the first row of each agent also brings in the state in which the agent
-- was left before: one look-up by index per agent.
numbered as (

    select
        deliveries.*,
        deliveries.agent_id_hash is not null and deliveries.trace_id is not null and (
            deliveries.is_sent_again
            {% if is_incremental() %}
            or exists (
                select 1
                from {{ this }} as earlier
                where
                    earlier.delivery_hash = deliveries.delivery_hash
                    and earlier.agent_id_hash = deliveries.agent_id_hash
                    and earlier.trace_id = deliveries.trace_id
                    and earlier.audit_sequence_number is not distinct from deliveries.audit_sequence_number
                    and earlier.traced_at < {{ rejudged_from() }}
            )
            {% endif %}
        ) as is_duplicate,
        row_number() over agent_order as agent_position
    from deliveries
    window agent_order as ({{ agent_order() }})

),

counted as (

    select
        numbered.*,
        {% if is_incremental() %}
        left_behind.is_known as is_carried_in,
        left_behind.last_agent_name as carried_agent_name,
        left_behind.last_audit_sequence_number as carried_audit_sequence_number,
        left_behind.last_fragility_flag as carried_fragility_flag,
        {% endif %}
        numbered.agent_id_hash is not null and not numbered.is_duplicate as is_counted
    from numbered
    {% if is_incremental() %}
    left join lateral (
        select
            true as is_known,
            verdicts.last_agent_name,
            verdicts.last_audit_sequence_number,
            verdicts.last_fragility_flag
        from {{ this }} as verdicts
        where
            numbered.agent_position = 1
            and verdicts.agent_id_hash = numbered.agent_id_hash
            and verdicts.traced_at < {{ rejudged_from() }}
            and verdicts.is_counted
        order by
            verdicts.traced_at desc,
            verdicts.audit_sequence_number desc nulls first,
            verdicts.trace_id collate "C" desc nulls first
        limit 1
    ) as left_behind on true
    {% endif %}

),

located as (

    select
        *,
        max(case when is_counted then agent_position end) over before as trace_position,
        max(case when is_counted and agent_name is not null then agent_position end) over before as name_position,
        max(
            case when is_counted and audit_sequence_number is not null then agent_position end
        ) over before as number_position,
        max(
            case when is_counted and idma_fragility_flag is not null then agent_position end
        ) over before as flag_position
    from counted
    window before as ({{ agent_order() }} rows between unbounded preceding and 1 preceding)

),

looked_up as (

    select
        *,
        {% if is_incremental() %}
        first_value(is_carried_in) over so_far is true as is_agent_carried_in,
        first_value(carried_agent_name) over so_far as agent_name_before,
        first_value(carried_audit_sequence_number) over so_far as audit_sequence_number_before,
        first_value(carried_fragility_flag) over so_far as fragility_flag_before,
        {% else %}
        false as is_agent_carried_in,
        null::text as agent_name_before,
        null::bigint as audit_sequence_number_before,
        null::boolean as fragility_flag_before,
        {% endif %}
        nth_value(agent_name, name_position::integer) over so_far as earlier_agent_name,
        nth_value(audit_sequence_number, number_position::integer) over so_far as earlier_audit_sequence_number,
        nth_value(idma_fragility_flag, flag_position::integer) over so_far as earlier_fragility_flag
    from located
    window so_far as ({{ agent_order() }} rows between unbounded preceding and current row)

),

in_context as (

    select
        *,
        trace_position is null and not is_agent_carried_in as is_agents_first,
        coalesce(earlier_agent_name, agent_name_before) as previous_agent_name,
        coalesce(earlier_audit_sequence_number, audit_sequence_number_before) as previous_audit_sequence_number,
        coalesce(earlier_fragility_flag, fragility_flag_before) as previous_fragility_flag
    from looked_up

),

sampled as (

    select
        *,
        {{ is_link_valid(
            'has_entry_hash', 'audit_sequence_number', 'previous_audit_sequence_number'
        ) }} as is_link_intact,
        row_number() over (
            partition by agent_id_hash collate "C", period_start, is_counted
            order by sampling_hash, audit_sequence_number, traced_at, content_hash
        ) as sample_rank
    from in_context

)

select
    case
        when copy_number is null then occurrence_id
        else md5(concat_ws('|', occurrence_id, content_hash, copy_number))::uuid
    end as trace_verdict_id,
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
    is_counted and is_agents_first as is_first_trace,
    is_counted and agent_name is not null and previous_agent_name is null as is_first_name,
    is_counted and coalesce(agent_name <> previous_agent_name, false) as is_identity_change,
    case when is_counted then previous_agent_name end as previous_agent_name,
    coalesce(action_was_overridden, false) as is_overridden,
    conscience_passed is false as is_conscience_failed,
    is_signature_verified,
    is_key_registered,
    is_counted and is_link_intact as is_link_valid,
    is_counted
    and is_signed
    and is_signature_verified
    {% if scoring_parameter('require_registered_keys') %}
    and is_key_registered
    {% endif %}
    and is_link_intact as is_chain_valid,
    is_counted
    and {{ is_chain_gap('audit_sequence_number', 'previous_audit_sequence_number') }} as is_chain_gap,
    is_counted and coalesce(audit_sequence_number < previous_audit_sequence_number, false) as is_chain_rewind,
    is_counted and coalesce(audit_sequence_number = previous_audit_sequence_number, false) as is_chain_duplicate,
    case when is_counted then previous_audit_sequence_number end as previous_audit_sequence_number,
    n_fields_present,
    csdma_plausibility_score,
    dsdma_domain_alignment,
    coherence_level,
    entropy_level,
    action_success,
    {{ is_unsafe('entropy_level', 'action_success') }} as is_unsafe,
    coherence_passed is not null as is_signal,
    coherence_passed is true and is_signature_verified as is_coherent_signal,
    idma_fragility_flag,
    idma_phase,
    is_counted and idma_fragility_flag is true and previous_fragility_flag is not true as is_fragility_detected,
    is_counted and idma_fragility_flag is false and previous_fragility_flag is true as is_fragility_recovered,
    is_counted
    and {{ scoring_parameter('replay_enabled') | string | lower }}
    and sample_rank <= {{ scoring_parameter('replay_sample_per_period') }} as is_replay_sampled,
    is_replayable,
    is_thought_start_recorded,
    replay_outcome,
    repairs,
    case when is_counted then coalesce(agent_name, previous_agent_name) end as last_agent_name,
    case
        when is_counted then coalesce(audit_sequence_number, previous_audit_sequence_number)
    end as last_audit_sequence_number,
    case when is_counted then coalesce(idma_fragility_flag, previous_fragility_flag) end as last_fragility_flag
from sampled
