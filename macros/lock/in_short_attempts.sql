{#- SQL that executes statements which lock a relation, in short attempts. While such a statement waits for its lock,
    every new reader waits behind it. So each attempt waits for half a second longer than the server's
    deadlock_timeout (1 second), after which PostgreSQL cancels an autovacuum that blocks it. Readers have a second
    before the next attempt. After ciris_lock_wait_seconds the last attempt fails. The error names a session with a lock on the
    relation. If there is none, it names a session with a lock on another relation of the same schema, because a reader
    of a view also locks the tables of the view. unless: SQL condition under which the statements are not executed. -#}
{% macro in_short_attempts(relation, statements, unless=none) %}
  do $attempts$
  declare
    gives_up_at constant timestamptz := clock_timestamp() + {{ setting('lock_wait_seconds') }} * interval '1 second';
    lock_timeout_before constant text := current_setting('lock_timeout');
  begin
    {%- if unless is not none %}
    if {{ unless }} then return; end if;
    {%- endif %}
    loop
      begin
        perform set_config('lock_timeout', (
          select least(s.setting::bigint + 500, 2147483647)::text from pg_settings as s where s.name = 'deadlock_timeout'
        ), true);
        {{ statements }}
        perform set_config('lock_timeout', lock_timeout_before, true);
        return;
      exception
        when lock_not_available then
          if clock_timestamp() >= gives_up_at then
            raise lock_not_available using message = {{ literal(relation) }} || ' cannot be changed: ' || coalesce(
              (
                select format(
                  '%s of user %s (application %s) has locked it, state %s, transaction open since %s, last query: %s. End '
                  'that transaction (%s), or set the variable ciris_lock_wait_seconds (now '
                  '{{- setting('lock_wait_seconds') }}) to a longer time; then run again.',
                  coalesce('Database process ' || locks.pid, 'A prepared transaction (see pg_prepared_xacts)'),
                  coalesce(activity.usename, 'unknown'),
                  coalesce(nullif(activity.application_name, ''), 'unknown'),
                  coalesce(activity.state, 'unknown'),
                  coalesce(to_char(activity.xact_start at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'), 'unknown'),
                  coalesce(left(regexp_replace(activity.query, '\s+', ' ', 'g'), 200), 'unknown'),
                  coalesce('select pg_terminate_backend(' || locks.pid || ');', 'rollback prepared')
                )
                from pg_locks as locks
                inner join pg_class as locked on locks.relation = locked.oid
                left join pg_stat_activity as activity on locks.pid = activity.pid
                where
                  locks.granted
                  and locks.pid is distinct from pg_backend_pid()
                  and locks.database = (select oid from pg_database where datname = current_database())
                  and locked.relnamespace = to_regnamespace({{ literal(adapter.quote(relation.schema)) }})
                order by locked.relname = {{ literal(relation.identifier) }} desc, activity.xact_start
                limit 1
              ), 'the session that had locked it has ended meanwhile. Run again.'
            );
          end if;
      end;
      perform pg_sleep(1);
    end loop;
  end
  $attempts$;
{% endmacro %}

{#- Drop a table or view, in short attempts. -#}
{% macro drop_in_short_attempts(relation) %}
  {%- do run_query(in_short_attempts(relation, "drop " ~ relation.type ~ " if exists " ~ relation ~ " cascade;")) -%}
  {#- Remove the relation from dbt's cache too. -#}
  {%- do adapter.drop_relation(relation) -%}
{% endmacro %}
