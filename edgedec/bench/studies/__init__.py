"""Studies: each measures one thing and returns a report that can say itself as JSON."""
