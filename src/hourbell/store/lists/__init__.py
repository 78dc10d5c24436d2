"""Lists and views for users: their queries, the statements of their pages, and the views of the rows."""
