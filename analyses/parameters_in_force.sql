select
    parameter_name,
    parameter_value,
    allowed_range,
    meaning
from {{ ref('dim_scoring_parameters') }}
order by parameter_name
