"""Parts of a report, one a file.

Each has ``measure(subject, progress)``, which returns plain JSON; ``figures(result)`` for comparisons; and
``view(result)``.
"""
