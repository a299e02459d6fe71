"""Reports: files that tell what inferdash did not know, or said wrongly, without what is private."""
