{{ config(materialized='incremental') }}
{#- A model that does not read the scores. Grain: one row per visit. -#}
select '{{ var("source_schema") }}'::text as visited
