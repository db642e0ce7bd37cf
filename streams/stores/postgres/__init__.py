"""PostgreSQL: many machines, one order."""
