{#- Before the log of runs is written: a server that can be written to, and sessions that a pooler does not share. The log
    cannot say that a run was refused here. -#}
{% macro check_server() %}
  {%- if run_query("select pg_catalog.pg_is_in_recovery()")[0][0] -%}
    {{ exceptions.raise_compiler_error(
      "Database " ~ target.dbname ~ " at " ~ target.host ~ " is a standby, which can only be read. Connect to the primary: "
      ~ "correct host and port of the target " ~ target.name ~ ".") }}
  {%- endif -%}
  {%- if setting('lock_holder_pid') is none and adapter.ciris_scoring_pooler is defined -%}
    {%- set fault = adapter.ciris_scoring_pooler() -%}
    {%- if fault -%} {{ exceptions.raise_compiler_error(fault) }} {%- endif -%}
  {%- endif -%}
{% endmacro %}
