"""What all other packages need: errors, times, the project, and sessions in its database."""
