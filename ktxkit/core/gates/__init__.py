"""Gates: pure readers of artifacts and the rules over what they found."""
