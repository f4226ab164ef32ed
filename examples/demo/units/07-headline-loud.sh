# Edits the same line as the unit before it.
sed -i 's/^Headline: .*/Headline: ORDERS ARE UP!/' wiki/global/orders.md
