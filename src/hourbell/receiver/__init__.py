"""Receive Hourbell's webhooks: verify the signature, handle each run once, answer correctly.

This package is standalone. It imports only the standard library, not even the rest of Hourbell.
"""

from hourbell.receiver.dedupe import CREATE_TABLE, forget, forget_async, once, once_async
from hourbell.receiver.exchange import Answer
from hourbell.receiver.signature import Verifier
from hourbell.receiver.webhook import InvalidWebhook, Reason, Webhook

__all__ = [
    "CREATE_TABLE",
    "Answer",
    "InvalidWebhook",
    "Reason",
    "Verifier",
    "Webhook",
    "forget",
    "forget_async",
    "once",
    "once_async",
]
