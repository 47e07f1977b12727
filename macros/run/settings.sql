{#- SQL that gives the current transaction the settings of this project (database/connection.py), whatever the session has
    inherited from the role, the database or the server. They end with the transaction, so a pooler may give the session
    to another client. Names are looked up only in pg_catalog, where only PostgreSQL creates objects; scratch tables are in
    pg_temp. -#}
{% macro transaction_settings() -%}
  {%- set milliseconds = [(setting('lock_wait_seconds') | float(60) * 1000) | round | int, 1] | max -%}
  {%- set settings = dict(distribution_settings(), lock_timeout=milliseconds ~ 'ms') -%}
  {{ adapter.ciris_scoring_settings(settings, target.get('role')) if adapter.ciris_scoring_settings is defined }}
{%- endmacro %}

{#- Begin a transaction that can write, with the settings of this project. -#}
{% macro begin_transaction() %}
  {%- do run_query("rollback; begin isolation level read committed read write; " ~ transaction_settings()) -%}
{% endmacro %}

{#- Give the transaction of a test the settings of this project. -#}
{% macro use_settings() %}
  {%- if execute -%} {%- do run_query(transaction_settings()) -%} {%- endif -%}
{% endmacro %}

{#- Rows of a query outside the transaction of a node, for example while dbt compiles a model. -#}
{% macro ask(query) %}
  {{ return(run_query(transaction_settings() ~ '; ' ~ query)) }}
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
