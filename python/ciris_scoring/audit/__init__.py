"""Raw trace batches: read, verify and load them, and check a database against them.

Needs the extra ``audit``; nothing else imports this package.
"""
