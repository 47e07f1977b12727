{#- Fails for each null and each repeated value of a model's key among the rows that the run has written. Unique there
    is unique everywhere, because the range that a run rewrites is part of every such key. -#}
{% test key_in_increment(model, column_name) %}
select
    {{ column_name }},
    count(*) as n
from {{ model }}
where {{ in_increment(model) }}
group by {{ column_name }}
having {{ column_name }} is null or count(*) > 1
{% endtest %}
