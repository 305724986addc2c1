"""Tools of other programs: local servers of the Model Context Protocol, over standard input and output."""
