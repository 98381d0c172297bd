"""Migrations of the tables, one module per version, run by Alembic."""
