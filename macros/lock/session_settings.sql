{#- Settings that a session may have inherited from its role, its database or the server, and that must not decide what
    is written: the same as in python/ciris_scoring/connection.py. For the rest of the session, because a model goes on
    after its transaction. PostgreSQL's own functions and scratch tables come first in the search path; views of the
    sources may need the rest of it. -#}
{% macro session_settings() %}
      set datestyle to 'ISO,MDY';
      set intervalstyle to 'postgres';
      set extra_float_digits to '1';
      set bytea_output to 'hex';
      set standard_conforming_strings to 'on';
      set transform_null_equals to 'off';
      set array_nulls to 'on';
      set default_transaction_isolation to 'read committed';
      set default_transaction_deferrable to 'off';
      set default_transaction_read_only to 'off';
      select pg_catalog.set_config(
        'search_path',
        pg_catalog.concat_ws(', ', 'pg_catalog', 'pg_temp', nullif(pg_catalog.current_setting('search_path'), '')),
        false
      );
{%- endmacro %}
