{#- The alert episode (certainty.md §4): whether the window's episodes or deferrals are worse than the agent's own in the
    steady days before it. Of episodes the Python model says how much longer they last and how likely as many are
    (episode_z, episode_chance). Arguments are SQL expressions; null or false where one of the two has no event. -#}

{#- Upper Wilson limit of a share. Of 1 it is 1, which would be rounded up at one n in four. -#}
{% macro upper_wilson_limit(share, n, z) -%}
  least(1, ({{ share }} + {{ z }} ^ 2 / (2 * {{ n }})
    + {{ z }} * sqrt({{ share }} * (1 - {{ share }}) / {{ n }} + ({{ z }} / (2 * {{ n }})) ^ 2))
    / (1 + {{ z }} ^ 2 / {{ n }}))
{%- endmacro %}

{#- Whether a share of bad events among n is larger than that among n_before: further above the upper limit of the earlier
    share than chance would bring it there (score interval, since both may rest on a few events). -#}
{% macro share_rose(share, n, share_before, n_before) -%}
  (case
    when {{ n }} > 0 and {{ n_before }} > 0
      then (
        select {{ share }} - earlier.highest > {{ scoring_parameter('episode_z') }} * sqrt(earlier.highest * (1 - earlier.highest) / {{ n }})
        from (
          select {{ upper_wilson_limit(share_before, n_before, '(' ~ scoring_parameter('episode_z') ~ ' / sqrt(2::double precision))') }} as highest
        ) as earlier
      )
  end)
{%- endmacro %}
