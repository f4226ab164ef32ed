# May not touch the semantic layer, and does.
printf '\n# looked at\n' >> semantic-layer/shop/customers.yaml
