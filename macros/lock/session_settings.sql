{#- Settings inherited from role, database or server that must not decide what is written; the same as in
    basics/connection.py. For the whole session, because a model goes on after its transaction. pg_catalog and scratch
    tables come first in the search path; views of the sources may need the rest. -#}
{% macro session_settings() %}
      {%- for name, value in settings_of_values().items() %}
      set {{ name }} to '{{ value }}';
      {%- endfor %}
      set default_transaction_isolation to 'read committed';
      set default_transaction_deferrable to 'off';
      set default_transaction_read_only to 'off';
      {%- if is_distributed() %}
      set citus.enable_local_execution to 'off';
      set citus.multi_shard_modify_mode to 'sequential';
      {#- Citus walks every join order of the coordinator again; workers choose their own. #}
      set join_collapse_limit to 1;
      {%- endif %}
      select pg_catalog.set_config(
        'search_path',
        pg_catalog.concat_ws(', ', 'pg_catalog', 'pg_temp', nullif(pg_catalog.current_setting('search_path'), '')),
        false
      );
{%- endmacro %}

{#- The settings that change how values are parsed or printed; Citus workers need them too. -#}
{% macro settings_of_values() %}
  {{ return({
      'datestyle': 'ISO,MDY', 'intervalstyle': 'postgres', 'extra_float_digits': '1', 'bytea_output': 'hex',
      'standard_conforming_strings': 'on', 'transform_null_equals': 'off', 'array_nulls': 'on',
  }) }}
{% endmacro %}
