{% if is_testable() %}
-- The fleet's counts add up and equal a direct count of the scores, both as the run will publish them.
with healthy as (

    select lower_bound
    from {{ ref('capacity_categories') }}
    where category = 'healthy'

),

rewritten as (

    select distinct
        as_of,
        window_days
    from {{ rows_after_run('fct_capacity_scores') }}
    where {{ in_increment(ref('fct_capacity_scores')) }}

),

scores as (

    select
        as_of,
        window_days,
        count(*) as n_agents,
        count(capacity_score) as n_composites,
        sum(capacity_score) as sum_capacity_score,
        min(capacity_score) as min_capacity_score,
        count(*) filter (
            where capacity_score_steady_low >= (select healthy.lower_bound from healthy)
        ) as n_steady_at_least_healthy,
        count(*) filter (
            where capacity_score_steady_high < (select healthy.lower_bound from healthy)
        ) as n_steady_below_healthy
    from {{ rows_after_run('fct_capacity_scores') }}
    -- As-ofs as an array, so that PostgreSQL uses the index. With `in` alone it would read all scores.
    where
        as_of = any(array(select rewritten.as_of from rewritten))
        and (as_of, window_days) in (
            select
                rewritten.as_of,
                rewritten.window_days
            from rewritten
        )
    group by
        as_of,
        window_days

),

fleet as (

    select
        *,
        n_high_fragility + n_moderate + n_healthy + n_high_capacity as n_composites
    from {{ rows_after_run('fct_fleet_capacity') }}
    where {{ in_increment(ref('fct_fleet_capacity')) }}

)

select
    as_of,
    window_days,
    scores.n_agents as n_scores,
    fleet.n_agents
from scores
full join fleet using (as_of, window_days)
where
    scores.n_agents is distinct from fleet.n_agents
    or scores.n_composites is distinct from fleet.n_composites
    or fleet.n_composites <> fleet.n_final + fleet.n_provisional
    or fleet.n_agents <> fleet.n_composites + fleet.n_insufficient_data
    or scores.min_capacity_score is distinct from fleet.min_capacity_score
    or scores.n_steady_at_least_healthy <> fleet.n_steady_at_least_healthy
    or scores.n_steady_below_healthy <> fleet.n_steady_below_healthy
    or abs(scores.sum_capacity_score - fleet.mean_capacity_score * scores.n_composites) > 1e-9
{% else %}
{{ untested() }}
{% endif %}
