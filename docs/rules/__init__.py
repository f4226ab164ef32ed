"""The pages of the rules, installed as `ktxkit.rule_pages` so that `gate-check --explain` finds them."""
