{#- Fails for each row that the run has written with a value outside [minimum, maximum] in one of the columns. NaN
    sorts above everything and fails too. Null passes. -#}
{% test in_range(model, columns, minimum, maximum) %}
select {{ columns | join(', ') }}
from {{ model }}
where
    {{ in_increment(model) }}
    and (
        least({{ columns | join(', ') }}) < {{ minimum }}
        or greatest({{ columns | join(', ') }}) > {{ maximum }}
    )
{% endtest %}
