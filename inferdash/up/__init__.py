"""`make up`: installs, then starts Redis, web, worker and watcher and keeps them running."""
