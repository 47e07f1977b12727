{{
  config(
    materialized='replace_range',
    meta={'judged_range': 'period_start'},
    indexes=[{'columns': ['period_start']}],
    pre_hook="{{ set_for_heavy_work() }}",
  )
}}
{#- What the signs of a polished record count in one period (certainty.md §5), so that any window is a sum.
    Grain and key: agent and period with a trace that counts. judged_keys is null where there is no key, nothing else is. Of
    traces that were judged before there was a reporting nothing is counted by field, and no key is known. -#}
with verdicts as (

    select
        {{ agent_key() }} as agent_id_hash,
        period_start,
        reporting,
        key_hash,
        is_key_registered,
        {{ is_trivial('selected_action', 'csdma_plausibility_score') }} as is_trivial,
        {{ is_renumbered('audit_sequence_number', 'previous_audit_sequence_number') }} as is_renumbered
    from {{ ref('int_trace_verdicts') }}
    where
        {{ in_judged_range('traced_at') }}
        and is_counted

),

-- Few combinations of letters and keys in a period: each is looked into once.
alike as (

    select
        agent_id_hash,
        period_start,
        reporting,
        key_hash,
        is_key_registered,
        count(*) as n_traces,
        count(*) filter (where is_trivial) as n_trivial,
        count(*) filter (where is_renumbered) as n_renumbered
    from verdicts
    group by
        agent_id_hash,
        period_start,
        reporting,
        key_hash,
        is_key_registered

),

key_uses as {{ inlined() }}(

    select
        agent_id_hash,
        key_hash,
        traced_at,
        period_start,
        is_another_key,
        is_shared_key
    from {{ ref('int_key_uses') }}
    where traced_at < {{ as_of() }}

),

new_keys as (

    select
        agent_id_hash,
        period_start,
        count(*) as n_new_keys
    from key_uses
    where
        {{ in_judged_range('traced_at') }}
        and is_another_key
    group by
        agent_id_hash,
        period_start

),

trace_sums as (

    select
        alike.agent_id_hash,
        alike.period_start,
        sum(alike.n_traces)::integer as n_traces,
        sum(alike.n_trivial)::integer as n_trivial,
        sum(alike.n_renumbered)::integer as n_renumbered,
        coalesce(sum(alike.n_traces) filter (where shared_keys.key_hash is not null), 0)::integer as n_shared_key,
        string_agg(distinct left(alike.is_key_registered::text, 1) || alike.key_hash, ',') as judged_keys,
        {% for field in record_sign_fields() %}
        {% set letter = 'substr(alike.reporting, ' ~ loop.index ~ ', 1)' %}
        coalesce(sum(alike.n_traces) filter (where {{ letter }} <> '-'), 0)::integer as n_checked_{{ field }},
        coalesce(
            sum(alike.n_traces) filter (where {{ letter }} in ('c', 'u')), 0
        )::integer as n_unreported_{{ field }},
        coalesce(sum(alike.n_traces) filter (where {{ letter }} = 'c'), 0)::integer as n_contradicted_{{ field }}
        {%- if not loop.last %},{% endif %}
        {% endfor %}
    from alike
    left join key_uses as shared_keys
        on
            alike.agent_id_hash = shared_keys.agent_id_hash
            and alike.key_hash = shared_keys.key_hash
            and shared_keys.is_shared_key
    group by
        alike.agent_id_hash,
        alike.period_start

)

select
    trace_sums.agent_id_hash,
    trace_sums.period_start,
    {% for counter in sign_counters() if counter != 'n_new_keys' %}
    trace_sums.{{ counter }},
    {% endfor %}
    coalesce(new_keys.n_new_keys, 0)::integer as n_new_keys,
    trace_sums.judged_keys
from trace_sums
left join new_keys
    on
        trace_sums.agent_id_hash = new_keys.agent_id_hash
        and trace_sums.period_start = new_keys.period_start
