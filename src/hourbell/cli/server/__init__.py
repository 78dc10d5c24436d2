"""Commands that query a server: `status`, `top`, `nodes`, `events`, `explain`, `forecast` and `audit`."""
