"""Types as JSON schemas and as validators, made together so that neither promises what the other refuses."""
