"""Commands that ask a server about itself: `status`, `top`, `nodes`, `events`, `explain`, `forecast` and `audit`."""
