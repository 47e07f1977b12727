{#- Fails for each row that the run has written with a null in one of the columns. -#}
{% test no_nulls_in_increment(model, columns) %}
select {{ columns | join(', ') }}
from {{ model }}
where
    {{ in_increment(model) }}
    and num_nulls({{ columns | join(', ') }}) > 0
{% endtest %}
