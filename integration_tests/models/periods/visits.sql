{{ config(materialized='incremental') }}
{#- Grain: one row per visit. It has nothing to do with the scores. -#}
select '{{ var("source_schema") }}'::text as visited
