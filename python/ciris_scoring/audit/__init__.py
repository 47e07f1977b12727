"""Raw trace batches: read them, verify their signatures, load them, and hold a database against them.

Needs the extra ``audit``; nothing else imports this package.
"""
