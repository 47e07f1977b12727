{#- Key of a lock on the target schema (basics/run_lock.py). lock: run_lock, writers_lock or start_lock. -#}
{% macro lock_key(lock) -%}
  hashtext('{{ constant(lock) }}'), hashtext('{{ target.schema | replace("'", "''") }}')
{%- endmacro %}

{#- Database processes that hold the run's lock on the target schema. -#}
{% macro run_lock_holders() -%}
  select l.pid
  from pg_locks as l
  where
    l.locktype = 'advisory'
    and l.granted
    and l.database = (select d.oid from pg_database as d where d.datname = current_database())
    and l.objsubid = 2
    and (l.classid::bigint, l.objid::bigint) = (
      select keys.class_key::bigint & 4294967295, keys.object_key::bigint & 4294967295
      from (select {{ lock_key('run_lock') }}) as keys (class_key, object_key)
    )
{%- endmacro %}

{#- Pre-hook of every node that writes: requires the checks of the run (check_run.sql), and takes a lock, so that only
    one run writes at a time. ciris-scoring holds the run's lock on another connection. If that connection breaks, no
    further model begins. A model that is still being built holds the writers' lock. By this lock the next run finds the
    session and ends it. Each transaction of plain dbt takes the run's lock in shared mode. The pre-hook restarts the
    transaction, because the first query of a transaction fixes its isolation level. -#}
{% macro write_under_lock() %}
  {%- if execute -%}
    {%- do require_checks() -%}
    {%- set holder = setting('lock_holder_pid') -%}
    {%- call statement('write_under_lock', fetch_result=True, auto_begin=True) -%}
      commit;
      begin isolation level read committed read write;
      {{ session_settings() }}
      {% if shared_run() %}
      select pg_advisory_xact_lock_shared(hashtextextended('{{ run_id() }}', 0));
      {% endif %}
      {% if holder is none %}
      select pg_try_advisory_xact_lock_shared({{ lock_key('run_lock') }})
      {% else %}
      select pg_advisory_xact_lock_shared({{ lock_key('writers_lock') }});
      select {{ holder }} in ({{ run_lock_holders() }})
      {% endif %}
    {%- endcall -%}
    {%- if not load_result('write_under_lock')['data'][0][0] -%}
      {{ exceptions.raise_compiler_error(
        "Another run holds the lock on schema " ~ target.schema ~ ". Wait until it has ended, then run again."
        if holder is none else
        "This run has lost its lock on schema " ~ target.schema ~ ": database process " ~ holder ~ " has ended. Another "
        ~ "run may be in progress; when it has ended, run again.") }}
    {%- endif -%}
    {{ set_on_workers() }}
  {%- endif -%}
{% endmacro %}
