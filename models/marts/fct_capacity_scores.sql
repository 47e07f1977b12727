{{
  config(
    materialized='replace_range',
    meta={'range': 'as_of'},
    pre_hook="{{ set_for_heavy_work(joins_by_key=true) }}",
    indexes=[{'columns': ['as_of', 'window_days']}, {'columns': ['scored_at']}],
  )
}}
{#- capacity_score = C * max(I_int, integrity_floor) * R * I_inc * S, with status, category and confidence (scoring.md
    §8), and the components of the factors. An agent that had a score and is silent has a row without any of them
    (scoring.md §1). Grain and key: agent, as-of, window. The composite scores and the category are null with too few
    traces. The range of as-ofs is in each import, because PostgreSQL passes only equalities through the joins. -#}
with windows as (

    select
        agent_id_hash,
        as_of,
        window_days,
        agent_name,
        first_traced_at,
        window_start,
        n_traces::integer as n_traces
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
composed as {{ on_workers() }} (

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

agents as {{ on_workers() }} (

    select
        agent_id_hash,
        agent_label
    from {{ ref('int_agents') }}

),

scoring_run as {{ on_workers() }} (

    select parameter_set_id
    from {{ ref('int_scoring_run') }}

),

-- Agents without a trace in the window. Those that never had a score in it are removed below.
silent_windows as {{ on_workers() }} (

    select
        silent_agents.agent_id_hash,
        silent_agents.as_of,
        scoring_windows.window_days,
        silent_agents.silent_from,
        silent_agents.last_traced_at
    from {{ ref('int_silent_agents') }} as silent_agents
    cross join {{ ref('scoring_windows') }} as scoring_windows
    where
        {{ in_scored_range('silent_agents.as_of') }}
        and silent_agents.silent_from <= silent_agents.as_of - {{ days('scoring_windows.window_days') }}

),

silences as {{ on_workers() }} (

    select distinct
        agent_id_hash,
        window_days,
        silent_from
    from silent_windows

),

scores_before as (

    select
        silences.agent_id_hash,
        silences.window_days,
        silences.silent_from,
        composed.as_of,
        composed.capacity_score
    from silences
    inner join composed
        on
            silences.agent_id_hash = composed.agent_id_hash
            and silences.window_days = composed.window_days
            and composed.as_of < silences.silent_from + {{ days('silences.window_days') }}
    where composed.capacity_score is not null
    {%- if is_incremental() %}

    union all

    select
        silences.agent_id_hash,
        silences.window_days,
        silences.silent_from,
        published.as_of,
        published.capacity_score
    from silences
    cross join lateral (
        select
            scores.as_of,
            scores.capacity_score
        from {{ this }} as scores
        where
            scores.agent_id_hash = silences.agent_id_hash
            and scores.window_days = silences.window_days
            and scores.as_of <= {{ cutoff() }}
            and scores.as_of < silences.silent_from + {{ days('silences.window_days') }}
            and scores.capacity_score is not null
        order by scores.as_of desc
        limit 1
    ) as published
    {%- endif %}

),

last_scores as (

    select distinct on (agent_id_hash, window_days, silent_from)
        agent_id_hash,
        window_days,
        silent_from,
        as_of as last_scored_as_of,
        capacity_score as last_capacity_score
    from scores_before
    order by
        agent_id_hash asc,
        window_days asc,
        silent_from asc,
        as_of desc

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
    now() as scored_at,
    null::timestamptz as last_traced_at,
    null::timestamptz as last_scored_as_of,
    null::double precision as last_capacity_score
from composed
cross join scoring_run
left join agents on composed.agent_id_hash = agents.agent_id_hash
left join {{ ref('capacity_categories') }} as categories
    on {{ is_in_category('composed.capacity_score', 'categories') }}

union all

select
    {{ surrogate_key(['silent_windows.agent_id_hash', epoch('silent_windows.as_of'), 'silent_windows.window_days']) }}
    as capacity_score_id,
    silent_windows.agent_id_hash,
    agent_names.agent_name,
    agents.agent_label,
    silent_windows.as_of,
    silent_windows.window_days,
    silent_windows.as_of - {{ days('silent_windows.window_days') }} as window_start,
    0 as n_traces,
    {% for column in [
        'c_score', 'i_int_score', 'r_score', 'i_inc_score', 's_score', 'capacity_score', 'capacity_score_geometric',
        'fragility_index', 'category',
    ] %}
    null as {{ column }},
    {% endfor %}
    'no_traces' as score_status,
    'insufficient' as confidence,
    null as weakest_factor,
    null as unmeasured_components,
    {% for component in components() %}
    null as {{ component }},
    {% endfor %}
    scoring_run.parameter_set_id,
    now() as scored_at,
    silent_windows.last_traced_at,
    last_scores.last_scored_as_of,
    last_scores.last_capacity_score
from silent_windows
inner join last_scores
    on
        silent_windows.agent_id_hash = last_scores.agent_id_hash
        and silent_windows.window_days = last_scores.window_days
        and silent_windows.silent_from = last_scores.silent_from
cross join scoring_run
left join agents on silent_windows.agent_id_hash = agents.agent_id_hash
left join {{ ref('int_agent_names') }} as agent_names
    on
        silent_windows.agent_id_hash = agent_names.agent_id_hash
        and silent_windows.as_of > agent_names.named_from
        and (agent_names.named_until is null or silent_windows.as_of <= agent_names.named_until)
