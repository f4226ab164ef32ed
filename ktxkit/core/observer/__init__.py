"""The observer's decisions: two clocks, what a scan means, what a record says. Pure, under a virtual clock."""
