"""The app server's protocol, which the Codex SDKs and editors speak: threads, turns and items, as a table over
`engine/activity`.
"""
