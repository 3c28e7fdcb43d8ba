"""What is done with streams in Spark: archive, replay, report. Plain functions of a session.

The command line (``hareline.cli.spark``) calls them, and so may any program.
"""
