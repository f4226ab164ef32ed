sed -i 's/^Headline: .*/Headline: every order counts./' wiki/global/orders.md
