{#- Grain: one row per parameter, as in force. Waits for the gate. -#}
-- depends_on: {{ ref('int_capacity_scores') }}
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
