{#- Session settings that replace the settings of the role, database or server. Python's sessions use the same settings
    (basics/connection.py). The settings remain after a model's transaction. Names are looked up only in pg_catalog,
    where only PostgreSQL creates objects; scratch tables are in pg_temp. -#}
{% macro session_settings() %}
      {%- for name, value in constant('settings_not_to_inherit', {}).items() %}
      set {{ name }} to '{{ value }}';
      {%- endfor %}
      {{ distribution_settings() }}
      {{ constant('lift_limits') or 'select' }};
      set lock_timeout to '{{ [(setting('lock_wait_seconds') | float(60) * 1000) | round | int, 1] | max }}ms';
      set search_path to {{ constant('search_path', 'pg_catalog, pg_temp') }};
      {%- if target.get('role') %} set role {{ target.role }};{% endif %} {#- dbt sets it in a transaction that a rollback undoes -#}
{%- endmacro %}

{#- SQL at the end of a hook. Hooks of other projects share the session and get their search path back. -#}
{% macro leave_session() %}
  {{ return('commit; reset search_path') }}
{% endmacro %}

{#- Set settings until the end of the transaction: on a cluster each by a separate query (macros/distribution/settings.sql),
    otherwise all by one query. -#}
{% macro set_local(settings) -%}
  {%- set statements = [] -%}
  {%- for name, value in settings.items() -%} {%- do statements.append("set local " ~ name ~ " to '" ~ value ~ "'") -%} {%- endfor -%}
  {%- if execute -%}
    {%- for query in (statements if is_distributed() else [statements | join('; ')]) -%} {%- do run_query(query) -%} {%- endfor -%}
  {%- endif -%}
{%- endmacro %}

{#- Settings for the transaction of a large model. jit is off, because compiling takes longer than it saves.
    costly_rows: whether the rows (JSON) cost more than the planner assumes. A parallel plan is then worthwhile even for
    an increment. joins_by_key: whether tables are joined by agent, as-of and window. The planner takes these columns
    for independent, expects too few rows and would choose slow nested loops. -#}
{% macro set_for_heavy_work(costly_rows=false, joins_by_key=false) -%}
  {%- set memory = setting('scoring_work_mem') -%}
  {%- set settings = {'work_mem': memory, 'maintenance_work_mem': memory, 'jit': 'off'} -%}
  {%- if costly_rows -%}
    {%- do settings.update({
        'enable_memoize': 'off', 'min_parallel_index_scan_size': 0, 'parallel_setup_cost': 100, 'parallel_tuple_cost': 0.01,
    }) -%}
  {%- endif -%}
  {%- if joins_by_key -%} {%- do settings.update({'enable_nestloop': 'off'}) -%} {%- endif -%}
  {{ set_local(settings) }}
{%- endmacro %}
