# Looks, and finds nothing to change.
test -f wiki/global/customers.md
