"""What people and programs touch: command line, terminal, reports, pages, `git ktx`."""
