"""Web pages and the HTML report."""
