"""Queries on the published marts that return typed rows. The pages, the report and the API all read through this
package."""
