select cast(opened_at as date) as opened_on, severity, count(*) as tickets, bool_or(is_open) as any_open from {{ source('desk', 'tickets') }} group by 1, 2
