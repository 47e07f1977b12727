{#- Fails for each row of the run (macro in_increment; all rows if every_row) with a null in a column of never_null, or
    a value outside [minimum, maximum] in a column of in_range, a list of {columns, minimum (0), maximum (1)}. NaN sorts
    above every number and fails too; null passes in_range. One test with one scan per model, because a run has many
    models. Unique indexes check the keys. -#}
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
