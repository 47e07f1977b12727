{#- Only one run writes at a time. The row of int_scoring_run names the run. Each transaction that writes a node after it
    locks that row in shared mode, and stops if the row names another run. So a run that begins waits until the last
    transaction of an earlier run has ended, and the earlier run writes nothing any more. In addition ciris-scoring holds
    an advisory lock (basics/run_lock.py), so that a second run is refused instead of taking over. -#}

{#- Key of the advisory lock of a target schema. -#}
{% macro lock_key() -%}
  hashtext('{{ constant('run_lock') }}'), hashtext('{{ target.schema | replace("'", "''") }}')
{%- endmacro %}

{#- Database processes that hold the advisory lock of the target schema. -#}
{% macro lock_holders() %}
  {{ return(run_query("
    select l.pid
    from pg_locks as l
    where
      l.locktype = 'advisory' and l.granted and l.objsubid = 2
      and l.database = (select d.oid from pg_database as d where d.datname = current_database())
      and (l.classid, l.objid) = (select keys.a::oid, keys.b::oid from (select " ~ lock_key() ~ ") as keys (a, b))
    ").columns[0].values() | list) }}
{% endmacro %}

{#- run_id that int_scoring_run must have when this invocation writes a node after it: that of the run that it continues,
    read at its start, or its own as soon as it has built int_scoring_run (begun). -#}
{% macro run_in_progress(begun=none) %}
  {%- if begun or 'run_in_progress ' ~ invocation_id not in graph -%}
    {%- do graph.update({'run_in_progress ' ~ invocation_id: begun or (last_run() or {'run_id': ''})['run_id']}) -%}
  {%- endif -%}
  {{ return(graph['run_in_progress ' ~ invocation_id]) }}
{% endmacro %}

{#- Pre-hook of every node that writes: requires the checks of the run (check_run.sql) and the row of the run. It restarts
    the transaction, because the first query of a transaction fixes its isolation level. -#}
{% macro write_under_lock() %}
  {%- if execute and flags.WHICH == 'clone' -%}
    {{ exceptions.raise_compiler_error(
      "dbt clone would make views, and hooks of the models would write through them into the tables of the original. Score "
      ~ "into the schema of this target instead: ciris-scoring run (in plain dbt: dbt build). To clone other packages, add "
      ~ "--exclude package:ciris_scoring.") }}
  {%- endif -%}
  {%- if execute -%}
    {%- do require_checks() -%}
    {%- set is_in_run = model.unique_id != 'model.ciris_scoring.int_scoring_run' and that_follow_run([model.unique_id]) -%}
    {%- call statement('write_under_lock', fetch_result=True, auto_begin=True) -%}
      commit;
      begin isolation level read committed read write;
      {{ session_settings() }}
      {% if is_in_run %}
      select 1 as n from {{ relation_as_left('int_scoring_run') }} where run_id = {{ literal(run_in_progress()) }} for share
      {% else %}
      select 1 as n
      {% endif %}
    {%- endcall -%}
    {%- if not load_result('write_under_lock')['data'] -%}
      {{ exceptions.raise_compiler_error(
        "Another run has begun on schema " ~ target.schema ~ ", so this run stops. When the other run has ended, run again if "
        ~ "necessary.") }}
    {%- endif -%}
    {{ set_on_workers() }}
  {%- endif -%}
{% endmacro %}
