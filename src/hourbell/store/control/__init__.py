"""Changes by users: each verb is written once, over a session of either database."""
