{#- Settings until the end of the transaction, on the workers of a cluster too: one statement each, because Citus passes
    on the whole text around a setting. -#}
{% macro set_local(settings) -%}
  {%- if not is_distributed() -%}
    {%- for name, value in settings.items() %}
  set local {{ name }} to '{{ value }}';
    {%- endfor -%}
  {%- elif execute -%}
    {%- do run_query("set citus.propagate_set_commands to 'local'") -%}
    {%- for name, value in settings.items() -%}
      {%- do run_query("set local " ~ name ~ " to '" ~ value ~ "'") -%}
    {%- endfor -%}
    {%- do run_query("set citus.propagate_set_commands to 'none'") -%}
  {%- endif -%}
{%- endmacro %}
