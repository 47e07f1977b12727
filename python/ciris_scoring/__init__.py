"""Python package of the CIRIS Capacity Score: its statistics, and the commands around dbt."""
