"""Commands for alerts: channels, alert policies and incidents, through the API."""
