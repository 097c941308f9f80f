"""What each verb answers to a robot, as types: commands and servers fill them in, and schemas are made from them.

Knows nothing of the command line. Each module holds the answers of verbs that need the same parts of the core, so that
a command loads no more than it needs; `table` has them all.
"""
