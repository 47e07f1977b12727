-- At the newest as-of every published score has each of its components once in fct_factor_components, and they
-- reproduce its C, I_int and I_inc: what people drill down to explains what they see.
{%- set explained = ['d_identity', 'k_contradiction', 'i_chain', 'i_coverage', 'i_replay', 'ece', 'q_deferral',
    'u_unsafe'] %}
with scores as (

    select
        agent_id_hash,
        as_of,
        window_days,
        c_score,
        i_int_score,
        i_inc_score
    from {{ ref('fct_capacity_scores') }}
    where as_of = (select max(newest.as_of) from {{ ref('fct_capacity_scores') }} as newest)

),

pivoted as (

    select
        agent_id_hash,
        as_of,
        window_days,
        count(*) as n_components,
        count(distinct factor_component_id) as n_keys,
        {% for component in explained %}
        max(component_value) filter (where component = '{{ component }}') as {{ component }}
        {%- if not loop.last %},{% endif %}
        {% endfor %}
    from {{ ref('fct_factor_components') }}
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
    pivoted.n_components
from scores
full join pivoted using (agent_id_hash, as_of, window_days)
where
    scores.c_score is null
    or pivoted.n_components is distinct from {{ components() | length }}
    or pivoted.n_keys <> pivoted.n_components
    or abs(scores.c_score - exp(
        -(
            {{ scoring_parameter('lambda_c') }} * pivoted.d_identity
            + {{ scoring_parameter('mu_c') }} * pivoted.k_contradiction
        )
    )) > 1e-12
    or abs(scores.i_int_score - pivoted.i_chain * pivoted.i_coverage * pivoted.i_replay) > 1e-12
    or abs(scores.i_inc_score - (1 - pivoted.ece) * pivoted.q_deferral * (1 - pivoted.u_unsafe)) > 1e-12
