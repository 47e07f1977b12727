{% if is_testable() %}
-- At the newest as-of every score is compared once with each of two earlier as-ofs. A comparison with a change has each
-- of the thirteen loss components once in fct_score_changes, and their points sum to the change. A comparison with a
-- reason instead has none. A component that did not change has exactly 0 points, except components of I_int if
-- integrity_floor is active and redistributes the loss. The tested views read published scores, so the test runs after
-- the publication.
-- depends_on: {{ ref('int_runs') }}
with comparisons as materialized (

    select
        agent_id_hash,
        as_of,
        window_days,
        compared_with,
        compared_as_of,
        change,
        not_comparable_because
    from {{ ref('fct_score_comparisons') }}
    where as_of = (select max(newest.as_of) from {{ ref('fct_capacity_scores') }} as newest)

),

changes as materialized (

    select
        score_change_id,
        agent_id_hash,
        as_of,
        window_days,
        compared_with,
        loss_component,
        loss_change,
        points,
        rank
    from {{ ref('fct_score_changes') }}
    where as_of = (select max(newest.as_of) from {{ ref('fct_capacity_scores') }} as newest)

),

components as (

    select
        agent_id_hash,
        as_of,
        window_days,
        {% for component in loss_components() | reject('in', ['r_ceiling', 's_score']) %}
        {{ component }}{% if not loop.last %},{% endif %}
        {% endfor %}
    from {{ ref('fct_capacity_scores') }}
    -- An array, so that PostgreSQL uses the index. With `in` it would read all scores.
    where as_of = any(array(
        select compared.as_of from comparisons as compared
        union distinct
        select compared.compared_as_of from comparisons as compared
    ))

),

summed as (

    select
        agent_id_hash,
        as_of,
        window_days,
        compared_with,
        count(*) as n_parts,
        count(distinct score_change_id) as n_keys,
        count(distinct rank) as n_ranks,
        sum(points) as points
    from changes
    group by
        agent_id_hash,
        as_of,
        window_days,
        compared_with

),

miscounted as (

    select
        agent_id_hash,
        as_of,
        window_days,
        compared_with,
        'losses do not sum to the change' as finding
    from comparisons
    full join summed using (agent_id_hash, as_of, window_days, compared_with)
    where
        comparisons.agent_id_hash is null
        or (comparisons.change is null) <> (comparisons.not_comparable_because is not null)
        or coalesce(summed.n_parts, 0)
        <> case when comparisons.change is null then 0 else {{ loss_components() | length }} end
        or summed.n_keys <> summed.n_parts
        or summed.n_ranks <> summed.n_parts
        or abs(summed.points - comparisons.change) > 1e-12

),

incomparable as (

    select
        agent_id_hash,
        as_of,
        window_days,
        string_agg(compared_with, ', ' order by compared_with) as compared_with,
        'not compared with both' as finding
    from comparisons
    group by
        agent_id_hash,
        as_of,
        window_days
    having string_agg(compared_with, ', ' order by compared_with) <> 'as_of, window'

),

unmoved as (

    select
        comparisons.agent_id_hash,
        comparisons.as_of,
        comparisons.window_days,
        comparisons.compared_with,
        unpivoted.loss_component
    from comparisons
    inner join components as now using (agent_id_hash, window_days, as_of)
    inner join components as earlier
        on
            comparisons.agent_id_hash = earlier.agent_id_hash
            and comparisons.window_days = earlier.window_days
            and comparisons.compared_as_of = earlier.as_of
    cross join lateral unnest(array[
        'r_ceiling',
        {% for component in loss_components() | reject('in', ['r_ceiling', 's_score']) %}
        {% if component not in ['i_chain', 'i_coverage', 'i_replay'] or scoring_parameter('integrity_floor') == 0 %}
        case when now.{{ component }} = earlier.{{ component }} then '{{ component }}' end
        {%- if not loop.last %},{% endif %}
        {% endif %}
        {% endfor %}
    ]) as unpivoted (loss_component)

),

moved_by_nothing as (

    select
        agent_id_hash,
        as_of,
        window_days,
        compared_with,
        loss_component || ' has not moved' as finding
    from changes
    inner join unmoved using (agent_id_hash, as_of, window_days, compared_with, loss_component)
    where
        changes.loss_change is distinct from 0
        or changes.points <> 0

)

select * from miscounted
union all
select * from incomparable
union all
select * from moved_by_nothing
{% else %}
{{ untested() }}
{% endif %}
