"""What people do to keep a workspace well: inspect, alert, back up, forget, evaluate."""
