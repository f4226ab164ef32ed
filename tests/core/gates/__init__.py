"""Tests of the gates ' pure readers and rules."""
