{#- White space of Unicode, and the separators U+001C to U+001F, which Python and Java strip too. -#}
{% macro white_space() -%}
  E'\t\n\x0b\f\r \u001c\u001d\u001e\u001f\u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000'
{%- endmacro %}

{#- Text that holds only white space becomes null (scoring.md §2). The first condition is a shortcut for most values.
    Only a million characters are trimmed, because trimming needs several times the text's size in memory. -#}
{% macro blank_to_null(column) -%}
  case
    when ascii({{ column }}) between 33 and 126 then {{ column }}
    when btrim(left({{ column }}, 1000000), {{ white_space() }}) <> '' then {{ column }}
  end
{%- endmacro %}

{#- Text in upper case (scoring.md §2). Only the letters a to z change, so that the result does not depend on the
    database's locale. In Turkish, for example, the upper case of i is another letter. -#}
{% macro upper_case(text) -%}
  upper({{ text }} collate "C")
{%- endmacro %}

{#- Name of an action (scoring.md §2): trimmed, in upper case, without the prefix HANDLERACTIONTYPE. The first two
    conditions are shortcuts for the values that CIRIS agents send. At most a million characters are read (see
    blank_to_null) and 200 kept. -#}
{% macro clean_action(column) -%}
  {%- set actions = constant('actions') -%}
  case
    when {{ column }} in ('{{ actions | join("', '") }}') then {{ column }}
    when {{ column }} in ('HandlerActionType.{{ actions | join("', 'HandlerActionType.") }}') then substr({{ column }}, 19)
    else nullif(left(btrim(
      regexp_replace({{ upper_case('btrim(left(' ~ column ~ ', 1000000), ' ~ white_space() ~ ')') }}, '^HANDLERACTIONTYPE[.]', ''),
      {{ white_space() }}
    ), 200), '')
  end
{%- endmacro %}

{#- Maximum length in bytes of a text that is stored again in later tables and their indexes (scoring.md §2). -#}
{% macro longest_text() -%} 512 {%- endmacro %}

{#- An identifier; null if it is blank or too long for an index (scoring.md §2). -#}
{% macro clean_id(column) -%}
  case when octet_length({{ column }}) <= {{ longest_text() }} then {{ blank_to_null(column) }} end
{%- endmacro %}

{#- Whether an identifier is null because of its length. False for white space of any length, which is blank. -#}
{% macro is_oversized_id(column) -%}
  case
    when octet_length({{ column }}) > {{ longest_text() }} then {{ blank_to_null(column) }} is not null
    else false
  end
{%- endmacro %}

{#- Text that is only compared and shown. A long text is replaced by its beginning and its MD5, because later tables
    store it again. -#}
{% macro shorten(column) -%}
  case when octet_length({{ column }}) > {{ longest_text() }} then {{ stand_in(column) }} else {{ column }} end
{%- endmacro %}

{#- A name; null if it is blank, shortened if it is longer than 1,024 bytes. Production allows 255 characters, which
    have at most 1,020 bytes. -#}
{% macro clean_name(column) -%}
  case
    when octet_length({{ column }}) > 1024
      then case when {{ blank_to_null(column) }} is not null then {{ stand_in(column) }} end
    else {{ blank_to_null(column) }}
  end
{%- endmacro %}

{#- Beginning and MD5 of a long text. -#}
{% macro stand_in(column) -%}
  left({{ column }}, 100) || '... (MD5 ' || md5({{ column }}) || ')'
{%- endmacro %}
