"""The gates besides the one of artifacts, behind one interface (`ktxkit.gate`)."""
