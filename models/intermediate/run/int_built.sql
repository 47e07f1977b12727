{{ config(materialized='replace_range', meta={'range': 'run_id'}) }}
{#- Models of the run that are up to date. Each model writes its row in the transaction in which it writes its rows
    (macros/run/enter_node.sql). int_scoring_run empties the table and adds its own row, which every other model
    locks. Grain and key: run_id, node. -#}
select
    null::text as node,
    null::text as run_id,
    null::text[] as parents,
    null::bigint as staged_rows
where false
