{#- Settings of a session on a cluster. enable_local_execution is off, because otherwise the coordinator could not
    create a reference table after it has read its copy of another reference table. propagate_set_commands makes Citus
    send each "set local" to the workers. A "set local" must be a separate statement, because Citus sends the whole text
    that contains it. -#}
{% macro distribution_settings() %}
  {%- if is_distributed() %}
      set citus.enable_local_execution to 'off';
      set citus.propagate_set_commands to 'local';
  {%- endif %}
{% endmacro %}

{#- Give the workers of the cluster the coordinator's settings for parsing and printing values, until the end of the
    transaction. -#}
{% macro set_on_workers() %}
  {%- if is_distributed() -%} {{ set_local(constant('settings_of_values')) }} {%- endif -%}
{% endmacro %}
