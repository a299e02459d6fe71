"""inferdash as services of systemd: installed, upgraded, rolled back, offline."""
