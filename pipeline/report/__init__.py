"""A data set or a run on one page: figures (plain functions), charts, and the page itself."""
