"""From a predictions file to scores with intervals, tables, figures and a page."""
