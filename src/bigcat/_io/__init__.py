"""Files on disk: atomic replacement, safetensors with digests, checks of what was read."""
