{#- Settings inherited from role, database or server that must not decide what is written; the same as in
    basics/connection.py. For the whole session, because a model goes on after its transaction. Names are looked up in
    pg_catalog alone, where only PostgreSQL puts functions, operators and types, and scratch tables in pg_temp. -#}
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
      set search_path to pg_catalog, pg_temp;
{%- endmacro %}

{#- The settings that change how values are parsed or printed, or which rows are seen; Citus workers need them too. -#}
{% macro settings_of_values() %}
  {{ return({
      'datestyle': 'ISO,MDY', 'intervalstyle': 'postgres', 'extra_float_digits': '1', 'bytea_output': 'hex',
      'standard_conforming_strings': 'on', 'transform_null_equals': 'off', 'array_nulls': 'on',
      'row_security': 'off',
  }) }}
{% endmacro %}
