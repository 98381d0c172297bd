"""Types as JSON schemas and as validators, made together so that they agree."""
