"""LLM deployments: specs, published and measured figures, fits, power traces and the spec cache."""
