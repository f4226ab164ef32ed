"""What a traced run saw: from the lines of its processes to one map. Pure."""
