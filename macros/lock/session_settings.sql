{#- Settings inherited from role, database or server that must not decide what is written; Python's sessions use the same
    ones, and basics/connection.py defines them. For the whole session, because a model goes on after its transaction.
    Names are looked up in pg_catalog alone, where only PostgreSQL puts functions, operators and types, and scratch tables
    in pg_temp. -#}
{% macro session_settings() %}
      {%- for name, value in constant('settings_not_to_inherit', {}).items() %}
      set {{ name }} to '{{ value }}';
      {%- endfor %}
      {%- if is_distributed() %}
      set citus.enable_local_execution to 'off';
      set citus.multi_shard_modify_mode to 'sequential';
      {%- for name, value in constant('settings_on_cluster', {}).items() %}
      set {{ name }} to '{{ value }}';
      {%- endfor %}
      {%- endif %}
      {{ constant('lift_limits') or 'select' }};
      set search_path to {{ constant('search_path', 'pg_catalog, pg_temp') }};
{%- endmacro %}
