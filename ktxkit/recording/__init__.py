"""What the pytest plugin is made of: facts of a run, and the recorders in the controlling process and in workers."""
