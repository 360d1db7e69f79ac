"""The app server's protocol, which the Codex SDKs and editors speak: translates `engine/activity` into threads, turns and items."""
