select id as order_id, customer as customer_id, cast(ordered_on as date) as ordered_on, status from {{ ref('raw_orders') }}
