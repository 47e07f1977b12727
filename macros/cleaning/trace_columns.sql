{#- Names of the required fields that are null in a cleaned row; null if there are none. -#}
{% macro missing_fields() -%}
  {%- set fields = constant('required_fields') -%}
  case
    when num_nulls({{ fields | join(', ') }}) > 0 then (
      select array_agg(fields.name)
      from unnest(
        array['{{ fields | join("', '") }}'], array[{{ fields | join(' is null, ') }} is null]
      ) as fields (name, is_missing)
      where fields.is_missing
    )
  end
{%- endmacro %}
