{#- Fails for each value outside [minimum, maximum]; NaN sorts above everything and fails too. Null passes. -#}
{% test in_range(model, column_name, minimum, maximum) %}
select {{ column_name }}
from {{ model }}
where {{ column_name }} < {{ minimum }} or {{ column_name }} > {{ maximum }}
{% endtest %}
