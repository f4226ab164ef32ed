# A page that speaks of a measure, correctly: the measure is there in the tree that this unit sees.
cat > wiki/global/revenue.md <<'PAGE'
---
summary: How revenue is measured
sl_refs: [orders]
---

# Revenue

Revenue is `orders.total_revenue`, in euros.
PAGE
