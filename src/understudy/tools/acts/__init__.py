"""What tools can do to the world. Each act is judged by policy, perhaps asked about, recorded, and only then done.

Tools reach these only through `ToolContext`.
"""
