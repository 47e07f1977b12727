{#- Time spine of the root project. Grain: one row per day. -#}
select days.day::date as date_day
from generate_series('2026-01-01'::timestamp, '2026-12-31'::timestamp, interval '1 day') as days (day)
