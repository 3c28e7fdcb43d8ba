"""Names in a selector, and the values that they read from a message.

Every name that is not in this table is a header:

================  ========  ====================================================================
name              kind      value
================  ========  ====================================================================
JMSPriority       number    priority; 0 without one, which is RabbitMQ's and Broker-J's default
JMSDeliveryMode   text      'PERSISTENT' when delivery-mode is 2, otherwise 'NON_PERSISTENT'
JMSMessageID      text      message-id, or else the header of this name
AMQMessageID      text      message-id
JMSCorrelationID  text      correlation-id, or else the header of this name
JMSType           text      type, or else the header of this name
JMSReplyTo        text      reply-to
JMSTimestamp      number    timestamp as it came, or else the header of this name
JMSExpiration     number    expiration as it came; 0 without one, which is JMS's "never"
JMSRedelivered    boolean   whether the message was delivered before
JMSXUserID        text      user-id, or else the header of this name
JMSXAppID         text      app-id, or else the header of this name
================  ========  ====================================================================

A Qpid client sets the properties; a RabbitMQ JMS client leaves out message-id, timestamp and type
and writes headers of the JMS names. Both send the group (JMSXGroupID, JMSXGroupSeq) as headers.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Kind = Literal["number", "text", "boolean"]


class KnownName(NamedTuple):
    """``code``: a Python expression over the locals of a generated function (see ``compiler``)."""

    kind: Kind
    code: str


def expiration_ms(text: str | None) -> int | None:
    """The property ``expiration`` as a number; unknown if it is not a number."""
    if text is None:
        return 0
    return int(text) if text.isascii() and text.isdecimal() else None


def _or_header(field: str, name: str) -> str:
    return f"properties.{field} if properties.{field} is not None else headers.get('{name}')"


KNOWN_NAMES: Final = {
    "JMSPriority": KnownName("number", "properties.priority or 0"),
    "JMSDeliveryMode": KnownName(
        "text", "'PERSISTENT' if properties.delivery_mode == 2 else 'NON_PERSISTENT'"
    ),
    "JMSMessageID": KnownName("text", _or_header("message_id", "JMSMessageID")),
    "AMQMessageID": KnownName("text", "properties.message_id"),
    "JMSCorrelationID": KnownName("text", _or_header("correlation_id", "JMSCorrelationID")),
    "JMSType": KnownName("text", _or_header("type", "JMSType")),
    "JMSReplyTo": KnownName("text", "properties.reply_to"),
    "JMSTimestamp": KnownName("number", _or_header("timestamp", "JMSTimestamp")),
    "JMSExpiration": KnownName("number", "expiration_ms(properties.expiration)"),
    "JMSRedelivered": KnownName("boolean", "is_redelivered"),
    "JMSXUserID": KnownName("text", _or_header("user_id", "JMSXUserID")),
    "JMSXAppID": KnownName("text", _or_header("app_id", "JMSXAppID")),
}
