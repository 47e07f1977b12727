"""What the marts say, as typed rows: read by the page, the report and the API. Nothing is computed a second time."""
