"""The terminal's side of inferdash: speaks to the web's API with a key. Needs Python alone."""
