select ticket_id, opened_at from {{ source('desk', 'tickets') }} where is_open
