{% snapshot scored_snapshot %}
{{ config(schema='reports', unique_key='newest_as_of', strategy='check', check_cols='all') }}
{#- Number of agents of each publication. Grain: one row per version of a newest as-of. -#}
-- depends_on: {{ ref('ciris_scoring', 'fct_scoring_runs') }}
select
    max(latest_as_of) as newest_as_of,
    count(*) as n_agents
from {{ ref('ciris_scoring', 'dim_agents') }}
{% endsnapshot %}
