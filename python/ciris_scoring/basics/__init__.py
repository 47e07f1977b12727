"""What every room needs: errors, times, the project and the session in its database."""
