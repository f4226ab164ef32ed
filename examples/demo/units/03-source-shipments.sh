# A clean new source.
cat > semantic-layer/shop/shipments.yaml <<'SOURCE'
name: shipments
table: shop.shipments
grain: [shipment_id]
columns:
  - {name: shipment_id, type: number}
  - {name: order_id, type: number}
  - {name: shipped_at, type: time}
joins:
  - to: orders
    on: shipments.order_id = orders.order_id
    relationship: many_to_one
measures:
  - name: shipment_count
    expr: count(shipment_id)
SOURCE
