"""Results as pictures that people look at."""
