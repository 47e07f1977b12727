{#- Whether a row of pg_locks is the lock that ciris-scoring takes on one target schema for a whole run
    (pg_advisory_lock with two keys, in python/ciris_scoring/connection.py). -#}
{% macro is_run_lock(locks) -%}
  {{ locks }}.objsubid = 2
  and {{ locks }}.classid::bigint = (hashtext('ciris_scoring')::bigint & 4294967295)
  and {{ locks }}.objid::bigint = (hashtext('{{ target.schema | replace("'", "''") }}')::bigint & 4294967295)
{%- endmacro %}
