"""Commands that need no server: `serve`, `db`, `doctor`, `token`, `secret`, `config`, `cron` and others."""
