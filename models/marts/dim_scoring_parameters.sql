{{ config(materialized='replace_range') }}
{#- Parameters in use (scoring.md §8). Grain and key: parameter_name. parameter_value is null for the sampling salt. -#}
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
