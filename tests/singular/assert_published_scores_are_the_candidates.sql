-- What passed the gate is what people will read, column by column: no candidate is missing, changed or left over.
-- The label, the verdict and the losses are added to what the gate lets through.
{%- set published = graph.nodes['model.ciris_scoring.fct_capacity_scores'].columns.keys() if execute else ['as_of'] %}
{%- set losses = (attributed_parts() | join('_loss ') ~ '_loss').split(' ') %}
{%- set added = ['agent_label', 'verdict', 'verdict_threshold', 'review_for'] + losses %}
{%- set columns = published | reject('in', added) | list %}
with candidates as (

    select
        true as is_there,
        {{ columns | join(', ') }}
    from {{ ref('int_capacity_scores') }}

),

published as (

    select
        true as is_there,
        {{ columns | join(', ') }}
    from {{ rows_after_run('fct_capacity_scores') }}
    where {{ in_scored_range('as_of') }}

)

select
    agent_id_hash,
    as_of,
    window_days,
    case
        when published.is_there is null then 'missing'
        when candidates.is_there is null then 'surplus'
        else 'changed'
    end as finding
from candidates
full join published using (agent_id_hash, as_of, window_days)
where
    num_nulls(candidates.is_there, published.is_there) > 0
    or (candidates.{{ columns | join(', candidates.') }})
    is distinct from (published.{{ columns | join(', published.') }})
