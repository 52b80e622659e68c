"""The built-in task types, one module each; `builtin` says which of them a worker offers.

Their inputs and outputs are those of the contract; docs/task-types.md has them with their failures.
"""
