{{
  config(
    materialized='replace_range',
    meta={'range': 'as_of'},
    pre_hook="{{ set_for_heavy_work(joins_by_key=true) }}",
    indexes=[{'columns': ['as_of', 'window_days']}, {'columns': ['scored_at']}],
  )
}}
{#- capacity_score = C * max(I_int, integrity_floor) * R * I_inc * S, with status, category and confidence (scoring.md
    §8), and the components of the factors. Grain and key: agent, as-of, window. The composite scores and the category
    are null with too few traces. The range of as-ofs stands in each import, because PostgreSQL passes only equalities
    through the joins. -#}
with windows as (

    select
        agent_id_hash,
        as_of,
        window_days,
        agent_name,
        first_traced_at,
        window_start,
        n_traces::integer as n_traces,
        computed_at
    from {{ ref('int_windows') }}
    where {{ in_scored_range('as_of') }}

),

-- Each factor, c_score to s_score, comes with its components from the model that has its formula.
core_identity as (

    select *
    from {{ ref('int_core_identity') }}
    where {{ in_scored_range('as_of') }}

),

integrity as (

    select *
    from {{ ref('int_integrity') }}
    where {{ in_scored_range('as_of') }}

),

resilience as (

    select *
    from {{ ref('int_resilience') }}
    where {{ in_scored_range('as_of') }}

),

incompleteness_awareness as (

    select *
    from {{ ref('int_incompleteness_awareness') }}
    where {{ in_scored_range('as_of') }}

),

sustained_coherence as (

    select *
    from {{ ref('int_sustained_coherence') }}
    where {{ in_scored_range('as_of') }}

),

factors as (

    select * -- noqa: RF02
    from windows
    inner join core_identity using (agent_id_hash, as_of, window_days)
    inner join integrity using (agent_id_hash, as_of, window_days)
    inner join resilience using (agent_id_hash, as_of, window_days)
    inner join incompleteness_awareness using (agent_id_hash, as_of, window_days)
    inner join sustained_coherence using (agent_id_hash, as_of, window_days)

),

floored as (

    select
        *,
        greatest(i_int_score, {{ scoring_parameter('integrity_floor') }}::double precision) as floored_i_int_score,
        n_traces >= {{ scoring_parameter('min_traces') }} as has_enough_traces
    from factors

),

-- Optimization barrier. Without it PostgreSQL would compute the composite scores again for each column that reads them.
composed as (

    select
        *,
        case when has_enough_traces then
            c_score * floored_i_int_score * r_score * i_inc_score * s_score
        end as capacity_score,
        case when has_enough_traces then
            power(c_score, {{ scoring_parameter('weight_c') }}::double precision)
            * power(floored_i_int_score, {{ scoring_parameter('weight_i_int') }}::double precision)
            * power(r_score, {{ scoring_parameter('weight_r') }}::double precision)
            * power(i_inc_score, {{ scoring_parameter('weight_i_inc') }}::double precision)
            * power(s_score, {{ scoring_parameter('weight_s') }}::double precision)
        end as capacity_score_geometric
    from floored
    {{ optimization_barrier() }} -- noqa: AM09

),

agents as (

    select
        agent_id_hash,
        agent_label
    from {{ ref('int_agents') }}

),

scoring_run as (

    select parameter_set_id
    from {{ ref('int_scoring_run') }}

)

select
    {{ surrogate_key(['composed.agent_id_hash', epoch('composed.as_of'), 'composed.window_days']) }}
    as capacity_score_id,
    composed.agent_id_hash,
    composed.agent_name,
    agents.agent_label,
    composed.as_of,
    composed.window_days,
    composed.window_start,
    composed.n_traces,
    composed.c_score,
    composed.i_int_score,
    composed.r_score,
    composed.i_inc_score,
    composed.s_score,
    composed.capacity_score,
    composed.capacity_score_geometric,
    1 / ({{ scoring_parameter('fragility_epsilon') }}::double precision + composed.capacity_score) as fragility_index,
    categories.category,
    case
        when not composed.has_enough_traces then 'insufficient_data'
        when composed.first_traced_at > composed.window_start - {{ days(scoring_parameter('warm_up_days')) }}
            then 'provisional'
        else 'final'
    end as score_status,
    case
        when composed.n_traces < 10 then 'insufficient'
        when composed.n_traces < 30 then 'low'
        when composed.n_traces < 100 then 'medium'
        else 'high'
    end as confidence,
    -- The first factor in this order that has the smallest value.
    case least(composed.c_score, composed.i_int_score, composed.r_score, composed.i_inc_score, composed.s_score)
        when composed.c_score then 'C'
        when composed.i_int_score then 'I_int'
        when composed.r_score then 'R'
        when composed.i_inc_score then 'I_inc'
        else 'S'
    end as weakest_factor,
    array_remove(array[
        case when not composed.is_replay_measured then 'i_replay' end,
        case when not composed.is_drift_measured then 'delta_drift' end,
        case when not composed.is_ece_measured then 'ece' end,
        case when not composed.is_s_measured then 's_score' end
    ], null) as unmeasured_components,
    {% for component in components() %}
    composed.{{ component }},
    {% endfor %}
    scoring_run.parameter_set_id,
    composed.computed_at as scored_at
from composed
cross join scoring_run
left join agents on composed.agent_id_hash = agents.agent_id_hash
left join {{ ref('capacity_categories') }} as categories
    on {{ is_in_category('composed.capacity_score', 'categories') }}
