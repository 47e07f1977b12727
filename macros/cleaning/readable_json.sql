{#- Whether jsonb accepts a valid json text; an unreadable value would stop the run. jsonb refuses U+0000, halves of
    surrogate pairs, numbers with more than 131072 digits before the point or 16383 after it, deep nesting and huge
    sizes. PostgreSQL has no exact limits of depth and size; the limits used here are far below what it accepts.
    PostgreSQL 15 has no pg_input_is_valid. -#}
{% macro is_readable_json(text) -%}
  case
    when octet_length({{ text }}) > 16777216 then false
    when octet_length({{ text }}) <= 10000 and {{ text }} !~ '\\u(0000|[dD][89a-fA-F])|[0-9][eE][+-]?[0-9]{4}' then true
    else (
      select
        escapes.unpaired !~ '\\u(0000|[dD][89a-fA-F])'
        and case
          when escapes.outside_strings ~ '[0-9][eE][+-]?[0-9]{4}|[0-9]{255}' then not exists (
            select 1
            from regexp_matches(
              escapes.outside_strings, '([0-9]+)(?:[.]([0-9]+))?(?:[eE]([+-]?)([0-9]+))?', 'g'
            ) as matches (parts)
            cross join lateral (
              select
                matches.parts[1] || coalesce(matches.parts[2], '') as digits,
                length(matches.parts[1]) as n_before_point,
                coalesce(length(matches.parts[2]), 0) as n_after_point,
                (coalesce(matches.parts[3], '') || left('0' || ltrim(matches.parts[4], '0'), 11))::bigint as shift
            ) as number
            where
              abs(number.shift) > 999999999
              or number.n_after_point - coalesce(number.shift, 0) > 16383
              or (
                ltrim(number.digits, '0') <> ''
                and number.n_before_point + coalesce(number.shift, 0)
                - (length(number.digits) - length(ltrim(number.digits, '0'))) > 131072
              )
          )
          else true
        end
        and case
          when length(translate(escapes.outside_strings, '[{', '')) < length(escapes.outside_strings) - 5000
            then 5000 >= (
              select max(nesting.depth)
              from (
                select sum(case when brackets.bracket in ('[', '{') then 1 else -1 end) over (order by brackets.nr) as depth
                from regexp_split_to_table(
                  regexp_replace(escapes.outside_strings, '[^][{}]+', '', 'g'), ''
                ) with ordinality as brackets (bracket, nr)
              ) as nesting
            )
          else true
        end
      from (
        select
          paired.unpaired,
          regexp_replace(paired.unpaired, '"(?:[^"\\]|\\.)*"', '""', 'g') as outside_strings
        from (
          select
            regexp_replace(
              -- Replace escaped backslashes, because they do not begin an escape. The replacement separates the texts
              -- before and after it.
              replace({{ text }}, '\\', '__'),
              '\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}', '__', 'g'
            ) as unpaired
        ) as paired
      ) as escapes
    )
  end
{%- endmacro %}
