{#- An array of n elements of SQL, with $i as 1 to n. -#}
{% macro array_of_each(n, element) -%}
  array[
    {%- for i in range(1, n + 1) %}{{ element | replace('$i', i | string) }}{% if not loop.last %}, {% endif %}{% endfor -%}
  ]
{%- endmacro %}
