"""What scoring costs on a Citus cluster, beside plain PostgreSQL."""
