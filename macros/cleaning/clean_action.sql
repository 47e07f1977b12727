{#- An action's bare name (section 2): trimmed, upper case, without a leading HANDLERACTIONTYPE. The first two tests
    settle what CIRIS agents send; the third does the work for whatever else there is. -#}
{% macro clean_action(column) -%}
  {%- set actions = ['SPEAK', 'TOOL', 'OBSERVE', 'REJECT', 'PONDER', 'DEFER', 'MEMORIZE', 'RECALL', 'FORGET',
                     'TASK_COMPLETE'] -%}
  case
    when {{ column }} in ('{{ actions | join("', '") }}') then {{ column }}
    when {{ column }} in ('HandlerActionType.{{ actions | join("', 'HandlerActionType.") }}') then substr({{ column }}, 19)
    else nullif(btrim(
      regexp_replace(upper(btrim({{ column }}, {{ white_space() }})), '^HANDLERACTIONTYPE[.]', ''),
      {{ white_space() }}
    ), '')
  end
{%- endmacro %}
