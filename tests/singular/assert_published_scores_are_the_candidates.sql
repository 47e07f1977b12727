-- What passed the gate is what people read, column by column: no candidate is missing, changed or left over.
-- The label alone is added to what the gate lets through.
{%- set published = graph.nodes['model.ciris_scoring.fct_capacity_scores'].columns.keys() if execute else ['*'] %}
{%- set columns = published | reject('equalto', 'agent_label') | join(', ') %}
with candidates as (

    select {{ columns }}
    from {{ ref('int_capacity_scores') }}
    where {{ in_increment(ref('int_capacity_scores')) }}

),

published as (

    select {{ columns }}
    from {{ ref('fct_capacity_scores') }}
    where {{ in_increment(ref('fct_capacity_scores')) }}

),

missing as (

    select * from candidates
    except all
    select * from published

),

surplus as (

    select * from published
    except all
    select * from candidates

)

select
    'missing' as finding,
    *
from missing

union all

select
    'surplus' as finding,
    *
from surplus
