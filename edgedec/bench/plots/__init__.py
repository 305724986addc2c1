"""Pictures of reports, drawn with matplotlib."""
