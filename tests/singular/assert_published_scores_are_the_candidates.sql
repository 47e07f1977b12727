-- What passed the gate is what people read, column by column: no candidate is missing, changed or left over.
{%- set columns = (graph.nodes['model.ciris_scoring.fct_capacity_scores'].columns if execute else ['*']) | join(', ') %}
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
