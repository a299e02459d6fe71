"""`make up` on a machine where nothing was installed before."""
