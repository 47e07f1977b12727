{#- Key of a lock on the target schema (basics/run_lock.py). lock: run_lock, writers_lock or start_lock. -#}
{% macro lock_key(lock) -%}
  hashtext('{{ constant(lock) }}'), hashtext('{{ target.schema | replace("'", "''") }}')
{%- endmacro %}

{#- Database processes that hold the run's lock on the target schema. -#}
{% macro run_lock_holders() -%}
  {{ lock_holders(lock_key('run_lock')) }}
{%- endmacro %}

{#- SQL that takes an advisory lock until the transaction ends. After ciris_lock_wait_seconds it fails and names the
    session that holds the lock, because any role that may connect can hold it. -#}
{% macro take_lock(key, function='pg_advisory_xact_lock') -%}
  do $lock$
  declare
    lock_timeout_before constant text := current_setting('lock_timeout');
  begin
    perform set_config('lock_timeout', '{{ [(setting('lock_wait_seconds') * 1000) | round | int, 1] | max }}ms', true);
    perform {{ function }}({{ key }});
    perform set_config('lock_timeout', lock_timeout_before, true);
  exception
    when lock_not_available then
      raise lock_not_available using message = coalesce(
        (
          select format(
            'Database process %s of user %s holds a lock that this run needs. Wait until it has ended, or end it: select '
            'pg_terminate_backend(%1$s); then run again.', activity.pid, activity.usename
          )
          from pg_stat_activity as activity
          where activity.pid in ({{ lock_holders(key) }})
          limit 1
        ), 'The session that held a lock of this run has ended meanwhile. Run again.'
      );
  end
  $lock$;
{%- endmacro %}

{#- Database processes that hold an advisory lock with a key of two parts. -#}
{% macro lock_holders(key) -%}
  select l.pid
  from pg_locks as l
  where
    l.locktype = 'advisory'
    and l.granted
    and l.database = (select d.oid from pg_database as d where d.datname = current_database())
    and l.objsubid = 2
    and (l.classid::bigint, l.objid::bigint) = (
      select keys.class_key::bigint & 4294967295, keys.object_key::bigint & 4294967295
      from (select {{ key }}) as keys (class_key, object_key)
    )
{%- endmacro %}

{#- Pre-hook of every node that writes: requires the checks of the run (check_run.sql), and takes a lock, so that only
    one run writes at a time. ciris-scoring holds the run's lock on another connection. If that connection breaks, no
    further model begins. A model that is still being built holds the writers' lock. By this lock the next run finds the
    session and ends it. Each transaction of plain dbt takes the run's lock in shared mode. The pre-hook restarts the
    transaction, because the first query of a transaction fixes its isolation level. -#}
{% macro write_under_lock() %}
  {%- if execute and flags.WHICH == 'clone' -%}
    {{ exceptions.raise_compiler_error(
      "dbt clone would make views, and hooks of the models would write through them into the tables of the original. Score "
      ~ "into the schema of this target instead: ciris-scoring run (in plain dbt: dbt build). To clone other packages, add "
      ~ "--exclude package:ciris_scoring.") }}
  {%- endif -%}
  {%- if execute -%}
    {%- do require_checks() -%}
    {%- set holder = setting('lock_holder_pid') -%}
    {%- call statement('write_under_lock', fetch_result=True, auto_begin=True) -%}
      commit;
      begin isolation level read committed read write;
      {{ session_settings() }}
      {% if shared_run() %}
      {{ take_lock(shared_run_key(), 'pg_advisory_xact_lock_shared') }}
      {% endif %}
      {% if holder is none %}
      select pg_try_advisory_xact_lock_shared({{ lock_key('run_lock') }})
      {% else %}
      {{ take_lock(lock_key('writers_lock'), 'pg_advisory_xact_lock_shared') }}
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
