{#- Whether an agent's behaviour got worse by more than chance, the alert falling (certainty.md §4). -#}

{#- The nine parts that are behaviour, s_score last. Episodes and deferrals are few and skewed: they are facts of a
    window, not chance around a rate. -#}
{% macro parts_of_behaviour() %}
  {{ return(attributed_parts() | reject('in', ['r_ceiling', 'mttr_hours', 'rho_regression', 'q_deferral']) | list) }}
{% endmacro %}

{#- Loss of such a part at a value, published or a limit, with the parameters in force, whichever the score was made
    with. What stands under a logarithm is at least 1e-9, so that no loss is infinite. Null where the value is, which
    greatest would lose. -#}
{% macro behaviour_loss(part, value) -%}
  {%- if part == 'd_identity' -%}
    ({{ scoring_parameter('lambda_c') }}::double precision * {{ value }})
  {%- elif part == 'k_contradiction' -%}
    ({{ scoring_parameter('mu_c') }}::double precision * {{ value }})
  {%- else -%}
    {%- if part == 'delta_drift' -%}
      {%- set kept = '1 / (1 + exp(-' ~ scoring_parameter('norm_k') ~ ' * (1 - ' ~ value ~ ' - '
          ~ scoring_parameter('norm_x0') ~ ')))' -%}
    {%- else -%}
      {%- set kept = '1 - ' ~ value if part in ['ece', 'u_unsafe'] else value -%}
    {%- endif -%}
    (0 - ln(case when {{ kept }} < 1e-9 then 1e-9 else {{ kept }} end))
  {%- endif -%}
{%- endmacro %}

{#- The column of a part's published value, or of its limit towards a worse or a better score. -#}
{% macro behaviour_column(part, which) -%}
  {%- set is_good = part in ['i_chain', 'i_coverage', 'i_replay', 's_score'] -%}
  {{ part }}{% if which != 'value' %}_{{ 'low' if (which == 'worse') == is_good else 'high' }}{% endif %}
{%- endmacro %}

{#- Variance of the change of a loss, by the sides of both intervals on which chance would have to lie. -#}
{% macro variance_of_loss_change(loss_before, worse_before, loss_now, better_now) -%}
  (power(({{ worse_before }} - {{ loss_before }}) / 1.96, 2) + power(({{ loss_now }} - {{ better_now }}) / 1.96, 2))
{%- endmacro %}

{#- Standard deviations by which behaviour has to be worse: against the window before, and against a longer one. which:
    together or alone. -#}
{% macro falling_z(which) -%}
  case
    when window_days = earlier_window_days then {{ scoring_parameter('falling_z_' ~ which) }}
    else {{ scoring_parameter('falling_month_z_' ~ which) }}
  end
{%- endmacro %}
