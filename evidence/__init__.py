"""The long lines of acceptance: each measures one claim and writes evidence/<name>.json."""
