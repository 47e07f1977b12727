{% if is_testable() %}
-- At the newest as-of every capacity_score has each of the thirteen loss components once in fct_score_attribution.
-- Their losses sum to -ln(capacity_score), their points to 1 - capacity_score. A loss is infinite only if the score is
-- 0. The tested views read published scores, so the test runs after the publication.
-- depends_on: {{ ref('int_runs') }}
with scores as (

    select
        agent_id_hash,
        as_of,
        window_days,
        capacity_score
    from {{ ref('fct_capacity_scores') }}
    where
        as_of = (select max(newest.as_of) from {{ ref('fct_capacity_scores') }} as newest)
        and capacity_score is not null

),

attributed as (

    select
        agent_id_hash,
        as_of,
        window_days,
        count(*) as n_parts,
        count(distinct score_attribution_id) as n_keys,
        count(distinct rank) as n_ranks,
        count(loss) as n_finite,
        min(loss) as least_loss,
        sum(loss) as total_loss,
        sum(points_lost) as points_lost
    from {{ ref('fct_score_attribution') }}
    where as_of = (select max(newest.as_of) from {{ ref('fct_capacity_scores') }} as newest)
    group by
        agent_id_hash,
        as_of,
        window_days

)

select
    agent_id_hash,
    as_of,
    window_days,
    scores.capacity_score,
    attributed.n_parts,
    attributed.total_loss,
    attributed.points_lost
from scores
full join attributed using (agent_id_hash, as_of, window_days)
where
    scores.capacity_score is null
    or attributed.n_parts is distinct from {{ loss_components() | length }}
    or attributed.n_keys <> attributed.n_parts
    or attributed.n_ranks <> attributed.n_parts
    or (attributed.n_finite < attributed.n_parts) <> (scores.capacity_score = 0)
    or attributed.least_loss < -1e-12
    or abs(attributed.points_lost - (1 - scores.capacity_score)) > 1e-12
    or abs(attributed.total_loss + ln(nullif(scores.capacity_score, 0))) > 1e-12 * greatest(1, attributed.total_loss)
{% else %}
{{ untested() }}
{% endif %}
