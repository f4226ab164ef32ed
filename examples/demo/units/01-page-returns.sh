# A clean new page.
cat > wiki/global/returns.md <<'PAGE'
---
summary: How returned orders are treated
sl_refs: [orders]
---

# Returns

A returned order still counts in `orders.order_count`.
PAGE
