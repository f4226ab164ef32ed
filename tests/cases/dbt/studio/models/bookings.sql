select booking_id, room_id, cast(booked_on as date) as booked_on, hours, price from {{ ref('raw_bookings') }}
