{#- An action's name (scoring.md §2): trimmed, upper case, without HANDLERACTIONTYPE. The first two tests settle what
    CIRIS agents send. At most a million characters are read (as in blank_to_null) and 200 kept. -#}
{% macro clean_action(column) -%}
  {%- set actions = constant('actions') -%}
  case
    when {{ column }} in ('{{ actions | join("', '") }}') then {{ column }}
    when {{ column }} in ('HandlerActionType.{{ actions | join("', 'HandlerActionType.") }}') then substr({{ column }}, 19)
    else nullif(left(btrim(
      regexp_replace({{ upper_case('btrim(left(' ~ column ~ ', 1000000), ' ~ white_space() ~ ')') }}, '^HANDLERACTIONTYPE[.]', ''),
      {{ white_space() }}
    ), 200), '')
  end
{%- endmacro %}
