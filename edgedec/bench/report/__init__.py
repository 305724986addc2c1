"""One report of one model on one machine: measured part by part, kept, rendered, compared.

subject     the model, and how much effort to spend on it
parts       one part of the report a file: its measurement, its figures, its view
folder      results of parts in files, so that a report that was interrupted goes on
whole       all parts, and what they were measured under
views       lines, tables and charts, from which HTML and Markdown are made
charts      pictures in SVG that follow the reader's light or dark setting
pages       HTML and Markdown
compared    two reports side by side
"""
