"""The Python side of the CIRIS Capacity Score: the resilience step and the commands around dbt."""
