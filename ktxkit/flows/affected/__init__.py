"""Which tests a change can reach: facts of trees collected, and the decision asked for."""
