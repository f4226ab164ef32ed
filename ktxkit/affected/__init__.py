"""Which tests a change can reach; the runtime map; the proof of a selection."""
