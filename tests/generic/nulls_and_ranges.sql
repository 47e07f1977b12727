{#- Fails for each row that the run has written (macro in_increment; of seeds and the like: every_row) with a null in one
    of the columns of never_null, or a value outside [minimum, maximum] in one of those of in_range: a list of
    {columns, minimum (0), maximum (1)}. NaN sorts above everything and fails too; null is in any range. One test and one
    scan per model, for a run has many models. That keys are unique is a matter of the tables' unique indexes. -#}
{% test nulls_and_ranges(model, never_null=[], in_range=[], every_row=false) %}
select
    rules.broken_rule,
    tested.*
from {{ model }} as tested
cross join lateral (
    values
    {% if never_null -%}
    ('null', num_nulls({{ never_null | join(', ') }}) > 0){% if in_range %},{% endif %}
    {%- endif %}
    {% for range in in_range -%}
    {%- set columns = range['columns'] | join(', ') -%}
    {%- set minimum, maximum = range.get('minimum', 0), range.get('maximum', 1) -%}
    (
        'outside [{{ minimum | replace("'", "") }}, {{ maximum | replace("'", "") }}]',
        least({{ columns }}) < {{ minimum }} or greatest({{ columns }}) > {{ maximum }}
    ){% if not loop.last %},{% endif %}
    {% endfor %}
) as rules (broken_rule, is_broken)
where
    rules.is_broken
    {% if not every_row -%}
    and {{ in_increment(model, 'tested') }}
    {%- endif %}
{% endtest %}
