{{
  config(
    materialized='replace_range',
    meta={'range': 'traced_at'},
    pre_hook="{{ set_for_heavy_work(costly_rows=true) }}",
  )
}}
{#- Checks whether sampled decisions follow from their recorded inputs (scoring.md §4, I_replay). Reads only the sampled
    source rows, because they are wide. Grain and key: trace_check_id of a sampled trace. Empty if replay_enabled is
    false. -#}
{#- Keys of the JSON component conscience_result that the comparisons read in addition to the values of columns. -#}
{%- set scores_and_checks = [
  'entropy_score', 'entropy_threshold', 'entropy_passed', 'coherence_score', 'coherence_threshold',
  'optimization_veto_passed', 'epistemic_humility_passed', 'thought_depth_triggered', 'updated_status_detected',
] -%}
-- This CTE is not materialized, because PostgreSQL does not parallelize queries that read a materialized CTE.
with sampled as not materialized (

    select
        agent_id_hash,
        traced_at,
        trace_check_id,
        period_start
    from {{ ref('int_trace_checks') }}
    where
        {{ in_checked_range('traced_at') }}
        and is_replay_sampled
        and {{ scoring_parameter('replay_enabled') | string | lower }}

),

-- The path '{}' makes PostgreSQL decompress each JSON component once, and not at every access.
unpacked as (

    select
        agent_id_hash_as_sent as agent_id_hash,
        agent_name,
        trace_id,
        traced_at,
        audit_sequence_number,
        signature,
        audit_entry_hash,
        csdma_plausibility_score,
        dsdma_domain_alignment,
        coherence_level,
        entropy_level,
        conscience_passed,
        action_was_overridden,
        coherence_passed,
        action_success,
        coalesce(jsonb_typeof(thought_start) = 'object', false) as is_thought_start_recorded,
        dma_results #> '{}' as dma_results,
        conscience_result #> '{}' as conscience_result,
        action_result #> '{}' as action_result
    from {{ ref('stg_cirislens__covenant_traces') }} as traces
    where
        {{ in_checked_range('traced_at') }}
        and traced_at >= {{ traces_from() }}
        and exists (
            select 1
            from sampled
            where
                sampled.agent_id_hash = traces.agent_id_hash_as_sent
                and sampled.traced_at = traces.traced_at
        )
    {{ optimization_barrier() }} -- noqa: AM09

),

looked_up as (

    select
        *,
        {% for column, value in components_of_columns().items() if column != 'idma_fragility_flag' %}
        {{ value }} as json_{{ column }},
        {% endfor %}
        {% for key in scores_and_checks %}
        conscience_result -> '{{ key }}' as json_{{ key }}{% if not loop.last %},{% endif %}
        {% endfor %}
    from unpacked
    {{ optimization_barrier() }} -- noqa: AM09

),

compared as (

    select
        agent_id_hash,
        traced_at,
        {{ occurrence_id('agent_id_hash') }} as occurrence_id,
        {{ content_hash() }} as content_hash,
        is_thought_start_recorded,
        array[
            {% for comparison in replay_comparisons().values() %}
            {{ comparison }}{% if not loop.last %},{% endif %}
            {% endfor %}
        ] as comparisons
    from looked_up
    {{ optimization_barrier() }} -- noqa: AM09

),

occurrences as (

    select
        *,
        {{ copy_number('occurrence') }} as copy_number
    from compared
    window occurrence as (partition by occurrence_id, agent_id_hash order by content_hash)

),

identified as (

    select
        *,
        {{ trace_check_id() }} as trace_check_id
    from occurrences

)

-- replay_outcome has one letter per comparison if one failed: t passed, f failed, - did not run.
select
    sampled.trace_check_id,
    sampled.agent_id_hash,
    sampled.traced_at,
    sampled.period_start,
    (
        identified.is_thought_start_recorded
        and true = any(identified.comparisons)
        and (false = any(identified.comparisons)) is not true
    ) is true as is_replayable,
    identified.is_thought_start_recorded,
    case
        when false = any(identified.comparisons) then array_to_string(identified.comparisons, '', '-')
    end as replay_outcome
from sampled
inner join identified
    on
        sampled.agent_id_hash = identified.agent_id_hash
        and sampled.traced_at = identified.traced_at
        and sampled.trace_check_id = identified.trace_check_id
