"""The scores as pages of HTML."""
