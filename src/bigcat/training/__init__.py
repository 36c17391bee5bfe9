"""From a plan and data to fitted weights."""
