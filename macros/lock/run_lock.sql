{#- The keys of the two advisory locks of a target schema (taken in python/ciris_scoring/basics/run_lock.py too). -#}
{% macro run_lock_key() -%}
  hashtext('ciris_scoring'), hashtext('{{ target.schema | replace("'", "''") }}')
{%- endmacro %}

{#- The second of them, which the transactions that write share. -#}
{% macro writers_lock_key() -%}
  hashtext('ciris_scoring_writers'), hashtext('{{ target.schema | replace("'", "''") }}')
{%- endmacro %}

{#- SQL query for the database processes that hold the lock of a run. -#}
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
      from (select {{ run_lock_key() }}) as keys (class_key, object_key)
    )
{%- endmacro %}

{#- Pre-hook of everything that writes, in its transaction, so that no two runs ever mix. A run of ciris-scoring holds
    its lock on a connection of its own, and may lose that connection while its models are at work: then no further
    one begins, and by the lock that its writers share, the next run finds and ends those that have begun. Plain dbt
    shares the run's lock itself, from transaction to transaction. Before it comes what the session is not to inherit,
    in the same call; the transaction is begun anew for that, because its own settings are fixed with its first query. -#}
{% macro write_under_lock() %}
  {%- if execute -%}
    {%- set holder = setting('lock_holder_pid') -%}
    {%- call statement('write_under_lock', fetch_result=True, auto_begin=True) -%}
      commit;
      begin isolation level read committed read write;
      {{ session_settings() }}
      {% if holder is none %}
      select pg_try_advisory_xact_lock_shared({{ run_lock_key() }})
      {% else %}
      select pg_advisory_xact_lock_shared({{ writers_lock_key() }});
      select {{ holder }} in ({{ run_lock_holders() }})
      {% endif %}
    {%- endcall -%}
    {%- if not load_result('write_under_lock')['data'][0][0] -%}
      {{ exceptions.raise_compiler_error(
        "Another run holds the lock on schema " ~ target.schema ~ ". Wait until it has ended, then run again."
        if holder is none else
        "This run has lost its lock on schema " ~ target.schema ~ ": database process " ~ holder ~ " has ended. Another "
        ~ "run may be at work; when it has ended, run again.") }}
    {%- endif -%}
    {%- if is_distributed() -%} {{ set_local(settings_of_values()) }} {%- endif -%}
  {%- endif -%}
{% endmacro %}
