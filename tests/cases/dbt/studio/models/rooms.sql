select room_id, room_name from {{ ref('raw_rooms') }}
