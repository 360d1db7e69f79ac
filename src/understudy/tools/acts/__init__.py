"""What tools can do to the world. Each act is judged by policy, perhaps asked about, recorded, and only then done.

Tools get at these through `ToolContext` and in no other way.
"""
