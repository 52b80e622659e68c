"""The HTTP/JSON door of a server process, made from descriptors and their google.api.http annotations alone.

`app.py` puts it together, `server.py` serves it. Nothing here knows any one service: whatever is registered with a
MethodTable and has an annotation is served, documented and mapped.
"""
