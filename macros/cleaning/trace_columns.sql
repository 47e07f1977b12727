{#- Names of the required fields that are null in a cleaned row; null if there are none. -#}
{% macro missing_fields() -%}
  {%- set fields = constant('required_fields') -%}
  case
    when num_nulls({{ fields | join(', ') }}) > 0 then array_remove(array[
      {% for field in fields %}
      case when {{ field }} is null then '{{ field }}' end{% if not loop.last %},{% endif %}
      {% endfor %}
    ], null)
  end
{%- endmacro %}
