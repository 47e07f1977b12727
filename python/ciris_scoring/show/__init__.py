"""Output for people and programs: fleet table, explanations, report, web pages and HTTP API."""
