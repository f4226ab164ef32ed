"""A whole job: lock, snapshot, project, fix the base, run units in parallel, integrate in order, gate, land, report."""
