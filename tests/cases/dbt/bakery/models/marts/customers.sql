{{ config(materialized='table') }}
select c.customer_id, c.first_name, c.last_name, min(o.ordered_on) as first_order, count(o.order_id) as number_of_orders
from {{ ref('stg_customers') }} c left join {{ ref('stg_orders') }} o using (customer_id)
group by 1, 2, 3
