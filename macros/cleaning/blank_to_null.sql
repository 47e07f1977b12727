{#- Text of nothing but white space becomes null (scoring.md §2). The first test settles nearly every value by its first
    character. Only a million characters are trimmed, because trimming takes several times the text's size in memory:
    text that begins with a million white spaces is blank. -#}
{% macro blank_to_null(column) -%}
  case
    when ascii({{ column }}) between 33 and 126 then {{ column }}
    when btrim(left({{ column }}, 1000000), {{ white_space() }}) <> '' then {{ column }}
  end
{%- endmacro %}

{#- White space in Unicode, and the four separators that Python and Java strip too. -#}
{% macro white_space() -%}
  E'\t\n\x0b\f\r \u001c\u001d\u001e\u001f\u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000'
{%- endmacro %}
