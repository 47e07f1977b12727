{{ config(post_hook="{{ keep_views(this) }}") }}
{#- Grain: one row per parameter, as in force. Waits for the scores and their components: views read all three, and two
    of them that are swapped at the same time would wait for each other. -#}
-- depends_on: {{ ref('int_published_components') }}
select
    parameters.parameter_name,
    parameters.parameter_value,
    parameters.default_value,
    parameters.allowed_range,
    parameters.meaning,
    parameters.specification_section,
    scoring_run.parameter_set_id
from {{ ref('int_scoring_parameters') }} as parameters
cross join {{ ref('int_scoring_run') }} as scoring_run
