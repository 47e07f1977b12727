-- The second half of a run is given the same parameters as the first: else one score would be made with two sets.
-- depends_on: {{ ref('int_resilience') }}
with given_now (parameter_name, value_digest) as (

    values
    {% for name in scoring_parameter_definitions() %}
    ('{{ name }}', '{{ local_md5(scoring_parameter_text(name)) }}'){% if not loop.last %},{% endif %}
    {% endfor %}

)

select parameter_name
from given_now
full join {{ ref('int_scoring_parameters') }} as first_half using (parameter_name)
where given_now.value_digest is distinct from first_half.value_digest
