"""What the adapters of model servers share: HTTP, server-sent events, failures, retries."""
