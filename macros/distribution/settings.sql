{#- Settings of a transaction on a cluster. enable_local_execution is off, because otherwise the coordinator could not
    create a reference table after it has read its copy of another reference table. propagate_set_commands makes Citus
    send each "set local" to the workers. A "set local" must be a separate statement, because Citus sends the whole text
    that contains it. -#}
{% macro distribution_settings() %}
  {{ return({'citus.enable_local_execution': 'off', 'citus.propagate_set_commands': 'local'} if is_distributed() else {}) }}
{% endmacro %}

{#- Give the workers of the cluster the coordinator's settings for parsing and printing values, until the end of the
    transaction. -#}
{% macro set_on_workers() %}
  {%- if is_distributed() -%} {{ set_local(constant('settings_of_values')) }} {%- endif -%}
{% endmacro %}
