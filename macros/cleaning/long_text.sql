{#- No text, however long, may stop a run or be copied into every row after its own. -#}

{#- The longest text, in bytes, that indexes hold and later rows repeat (scoring.md §2). -#}
{% macro longest_text() -%} 512 {%- endmacro %}

{#- The longest name, in bytes, that is kept as it is: production's 255 characters take 1,020 at most. -#}
{% macro longest_name() -%} 1024 {%- endmacro %}

{#- An identifier: null when blank, and when too long for an index (scoring.md §2). -#}
{% macro clean_id(column) -%}
  case when octet_length({{ column }}) <= {{ longest_text() }} then {{ blank_to_null(column) }} end
{%- endmacro %}

{#- Whether an identifier is null for its length. White space alone is blank, however much of it. -#}
{% macro is_oversized_id(column) -%}
  case
    when octet_length({{ column }}) > {{ longest_text() }} then {{ blank_to_null(column) }} is not null
    else false
  end
{%- endmacro %}

{#- A long text shortened, if it is only compared and shown: its beginning and its MD5, as different from others as
    before, and cheap to store again with each later trace and score. -#}
{% macro shorten(column) -%}
  case when octet_length({{ column }}) > {{ longest_text() }} then {{ stand_in(column) }} else {{ column }} end
{%- endmacro %}

{#- A name: null when blank, and shortened when long. -#}
{% macro clean_name(column) -%}
  case
    when octet_length({{ column }}) > {{ longest_name() }}
      then case when {{ blank_to_null(column) }} is not null then {{ stand_in(column) }} end
    else {{ blank_to_null(column) }}
  end
{%- endmacro %}

{#- The shortened form of a long text. -#}
{% macro stand_in(column) -%}
  left({{ column }}, 100) || '... (MD5 ' || md5({{ column }}) || ')'
{%- endmacro %}
