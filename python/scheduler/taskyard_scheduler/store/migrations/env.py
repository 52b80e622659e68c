"""Run by Alembic for each upgrade: applies the migrations on the connection that `migrate` hands over."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transaction_per_migration=False)
context.run_migrations()
