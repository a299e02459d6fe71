"""One file with all that people have made here, and back again. See docs/install.md."""
