"""git itself: the runners, objects, merging, checkouts, what a worktree holds."""
