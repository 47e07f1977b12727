"""What people look at: the table of the fleet, explanations, the report, pages and API."""
