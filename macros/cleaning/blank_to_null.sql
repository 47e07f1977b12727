{#- Empty or whitespace-only text becomes null (scoring.md §2); anything else stays as it is. Unicode's white space
    counts. The first test settles nearly every value without looking further than its first character. Trimming
    takes PostgreSQL several times the text's size in memory, so no more than a million characters are tried: text
    that begins with as much white space is blank. -#}
{% macro blank_to_null(column) -%}
  case
    when ascii({{ column }}) between 33 and 126 then {{ column }}
    when btrim(left({{ column }}, 1000000), {{ white_space() }}) <> '' then {{ column }}
  end
{%- endmacro %}

{#- Every character that Unicode calls white space, and the four separators that Python and Java strip too. -#}
{% macro white_space() -%}
  E'\t\n\x0b\f\r \u001c\u001d\u001e\u001f\u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000'
{%- endmacro %}
