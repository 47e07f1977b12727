{{
  config(
    materialized='replace_range',
    meta={'range': 'as_of'},
    pre_hook="{{ set_for_heavy_work(joins_by_key=true) }}",
  )
}}
{#- S(T; W) = mean of sigma(t) / sigma_max(t) over the period ends t in (T - W, T] that have a signal within the
    lookback horizon M = coherence_days (scoring.md §7). sigma(t) is the sum over the periods p in [t - M, t) of
    g(p) * keep^k, where k is the number of periods between the end of p and t. It equals keep^n(t) times the sum of
    g(p) * keep^-n(p), where n numbers the period ends of the agent. These sums are differences of running totals of
    exact decimals. Grain and key: agent, as-of, window. S is 0 (unmeasured) without a signal; no column is null. -#}
{%- set keep = '(1 - ' ~ scoring_parameter('decay_per_day') ~ '::double precision * ' ~ period_hours() ~ ' / 24)' -%}
{%- set w_c, w_u = scoring_parameter('w_corroborated'), scoring_parameter('w_uncorroborated') -%}
{%- set per_day = 24 // period_hours() -%}
with windows as (

    select
        window_days,
        window_days * {{ per_day }} as n_ends,
        coherence_days * {{ per_day }} as memory
    from {{ ref('scoring_windows') }}

),

-- Weights of the coherent signals and of all signals.
signals as (

    select
        agent_id_hash,
        period_start,
        {{ w_c }} * n_coherent_corroborated + {{ w_u }} * n_coherent_uncorroborated as coherent,
        {{ w_c }} * n_signals_corroborated + {{ w_u }} * n_signals_uncorroborated as all_signals
    from {{ ref('int_agent_periods') }}
    where
        period_start >= {{ cutoff() }} - (
            select max({{ days('seed.window_days + seed.coherence_days') }}) from {{ ref('scoring_windows') }} as seed
        )
        and period_start < {{ run_as_of() }}

),

spans as (

    select
        agent_id_hash,
        min(period_start) as first_period_start,
        least(
            max(period_start) + (select max({{ days('seed.window_days') }}) from {{ ref('scoring_windows') }} as seed),
            {{ run_as_of() }}
        ) as last_as_of
    from signals
    group by agent_id_hash

),

-- Every period end of an agent, with its number.
period_ends as (

    select
        spans.agent_id_hash,
        {{ nth_period('spans.first_period_start', '(period.n + 1)') }} as as_of,
        (
            period.n + 1 + extract(epoch from spans.first_period_start - {{ period_start('agents.first_traced_at') }})
            / {{ 3600 * period_hours() }}
        )::double precision as n
    from spans
    inner join {{ ref('int_agents') }} as agents on spans.agent_id_hash = agents.agent_id_hash
    cross join lateral
        {{ each_period('spans.first_period_start', 'spans.last_as_of - ' ~ period_length()) }} as period (n)

),

totals as (

    select
        period_ends.agent_id_hash,
        period_ends.as_of,
        power({{ keep }}, period_ends.n) as decay,
        -- The text of a double has all its digits, which a cast to numeric would cut.
        sum(signals.coherent * power({{ keep }}, -period_ends.n)::text::numeric) over so_far as coherent,
        sum(signals.all_signals * power({{ keep }}, -period_ends.n)::text::numeric) over so_far as all_signals
    from period_ends
    left join signals
        on
            period_ends.agent_id_hash = signals.agent_id_hash
            and period_ends.as_of = signals.period_start + {{ period_length() }}
    window so_far as (partition by {{ of_agent('period_ends.') }} order by period_ends.as_of)

),

-- States at each period end: what the horizon of the window holds.
states as (

    select
        totals.agent_id_hash,
        totals.as_of,
        windows.window_days,
        windows.n_ends,
        totals.decay,
        coalesce(totals.coherent, 0) - coalesce(lag(totals.coherent, windows.memory) over by_end, 0) as coherent,
        coalesce(totals.all_signals, 0) - coalesce(lag(totals.all_signals, windows.memory) over by_end, 0)
        as all_signals
    from totals
    cross join windows
    window by_end as (partition by {{ of_agent('totals.') }}, windows.window_days order by totals.as_of)

),

-- Ratios have 15 decimals, so their sums are exact, too.
ratios as (

    select
        *,
        sum(round(coherent / nullif(all_signals, 0), 15)) over so_far as total_ratio,
        count(nullif(all_signals, 0)) over so_far as n_measured
    from states
    window so_far as (partition by {{ of_agent() }}, window_days order by as_of)

),

means as (

    select
        agent_id_hash,
        as_of,
        window_days,
        decay * coherent::double precision as sigma,
        decay * all_signals::double precision as sigma_max,
        coalesce(total_ratio, 0) - coalesce(lag(total_ratio, n_ends) over by_end, 0) as ratio,
        n_measured - coalesce(lag(n_measured, n_ends) over by_end, 0) as n_measured
    from ratios
    window by_end as (partition by {{ of_agent() }}, window_days order by as_of)

)

select
    means.agent_id_hash,
    means.as_of,
    means.window_days,
    means.sigma,
    means.sigma_max,
    (windows.n_signals_corroborated + windows.n_signals_uncorroborated)::integer as n_signals,
    means.n_measured > 0 as is_s_measured,
    coalesce(round(means.ratio / nullif(means.n_measured, 0), 15), 0)::double precision as s_score
from means
inner join {{ ref('int_windows') }} as windows
    on
        means.agent_id_hash = windows.agent_id_hash
        and means.as_of = windows.as_of
        and means.window_days = windows.window_days
where {{ in_scored_range('means.as_of') }}
