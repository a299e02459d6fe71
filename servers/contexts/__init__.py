"""Page contexts: the data of templates, for views and for the socket that renews pages."""
