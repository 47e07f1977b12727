{#- White space of Unicode, and the separators U+001C to U+001F, which Python and Java strip too. -#}
{% macro white_space() -%}
  E'\t\n\x0b\f\r \u001c\u001d\u001e\u001f\u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000'
{%- endmacro %}

{#- Text; null if it holds only white space (scoring.md §2). The first condition is a shortcut for most values. Only a
    million characters are trimmed, because trimming needs several times the text's size in memory. -#}
{% macro clean_text(column) -%}
  case
    when ascii({{ column }}::text) between 33 and 126 then {{ column }}::text
    when {{ trimmed(column) }} <> '' then {{ column }}::text
  end
{%- endmacro %}

{#- The first million characters of a text, without white space at both ends. -#}
{% macro trimmed(column) -%}
  btrim(left({{ column }}::text, 1000000), {{ white_space() }})
{%- endmacro %}

{#- Text in upper case (scoring.md §2). Only the letters a to z change, so that the result does not depend on the
    database's locale. In Turkish, for example, the upper case of i is another letter. -#}
{% macro upper_case(text) -%}
  upper({{ text }} collate "C")
{%- endmacro %}

{#- A word that is compared with a list: trimmed, in upper case. -#}
{% macro clean_word(column) -%}
  nullif(left({{ upper_case(trimmed(column)) }}, 200), '')
{%- endmacro %}

{#- Name of an action (scoring.md §2): trimmed, in upper case, without the prefix HANDLERACTIONTYPE. The first two
    conditions are shortcuts for the values that CIRIS agents send. -#}
{% macro clean_action(column) -%}
  {%- set actions = constant('actions') -%}
  case
    when {{ column }} in ('{{ actions | join("', '") }}') then {{ column }}::text
    when {{ column }} in ('HandlerActionType.{{ actions | join("', 'HandlerActionType.") }}') then substr({{ column }}::text, 19)
    else nullif(left(btrim(
      regexp_replace({{ upper_case(trimmed(column)) }}, '^HANDLERACTIONTYPE[.]', ''), {{ white_space() }}
    ), 200), '')
  end
{%- endmacro %}

{#- An identifier; null if it is blank or, with more than 512 bytes, too long for an index (scoring.md §2). -#}
{% macro clean_id(column) -%}
  case when octet_length({{ column }}::text) <= 512 then {{ clean_text(column) }} end
{%- endmacro %}

{#- Whether an identifier is too long for an index. A long blank text is blank. -#}
{% macro is_oversized_id(column) -%}
  (octet_length({{ column }}::text) > 512 and {{ clean_text(column) }} is not null)
{%- endmacro %}

{#- A name; null if it is blank, shortened if it is longer than 1,024 bytes. Production allows 255 characters, which
    have at most 1,020 bytes. -#}
{% macro clean_name(column) -%}
  {{ shorten(clean_text(column), 1024) }}
{%- endmacro %}

{#- Text that is only compared and shown. A long text is replaced by its beginning and its MD5, because later tables
    store it again. -#}
{% macro shorten(text, longest=512) -%}
  case
    when octet_length({{ text }}) > {{ longest }} then left({{ text }}, 100) || '... (MD5 ' || md5({{ text }}) || ')'
    else {{ text }}
  end
{%- endmacro %}
